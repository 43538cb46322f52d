// PEAL_API marks the words that libpeal.so exports; everything else stays hidden inside it.
#pragma once

#if defined(__GNUC__)
#define PEAL_API __attribute__((visibility("default")))
#else
#define PEAL_API
#endif
