#include <bootstrap/rendezvous.hpp>

#include "star.hpp"

namespace peal::bootstrap {

Rendezvous::Rendezvous(std::unique_ptr<Star> star) : star_(std::move(star)) {}
Rendezvous::~Rendezvous() = default;

Result<std::unique_ptr<Rendezvous>> Rendezvous::join(const Job& job, Contact mine, FileDescriptor listener) {
  PEAL_TRY(check(job));
  mine.rank = job.rank;
  PEAL_ASSIGN(auto star, job.rank == job.hub ? open_root(job, std::move(mine), std::move(listener)) : open_member(job, std::move(mine)));
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(star)));
}

int Rendezvous::rank() const { return star_->job.rank; }
int Rendezvous::size() const { return star_->job.size; }
const std::vector<Contact>& Rendezvous::contacts() const { return star_->contacts; }
const net::Key& Rendezvous::data_key() const { return star_->data_key; }
std::uint64_t Rendezvous::session_id() const { return star_->session_id; }
const std::vector<std::string>& Rendezvous::notes() const { return star_->notes; }

Result<std::vector<std::string>> Rendezvous::all_gather(std::string blob) { return gather(*star_, std::move(blob)); }

Status Rendezvous::barrier() {
  PEAL_TRY(gather(*star_, {}));
  return {};
}

}  // namespace peal::bootstrap
