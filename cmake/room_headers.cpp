// Nothing but its headers: their owner must have a source.
