// Result<T>: how errors travel inside Peal. Exceptions exist only at the C++ surface.
#pragma once

#include <fmt/format.h>
#include <peal/error.hpp>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace peal {

/// One failure, complete enough to be shown to a person as it is.
struct Failure {
  ErrorCode code = ErrorCode::internal;
  std::string message;    ///< what happened, where, the likely cause and what to type
  int rank = -1;          ///< culprit, or -1
  int peer = -1;          ///< the other side, or -1
  std::string operation;  ///< collective or command, or empty
};

template <class T>
using Result = tl::expected<T, Failure>;

/// Result<void>. `return {}` of that clears the room for a failure, which costs a short call as much as its message does.
class [[nodiscard]] Status : public Result<void> {
 public:
  Status() noexcept {}  // NOLINT(modernize-use-equals-default): a defaulted one would clear it
  using Result<void>::expected;
};

/// fail(ErrorCode::invalid_argument, "root {} is not below {} ranks", root, n)
template <class... Args>
tl::unexpected<Failure> fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Failure>(Failure{code, fmt::format(text, std::forward<Args>(args)...), -1, -1, {}});
}

/// Hands a failure of one Result on as the failure of another.
inline tl::unexpected<Failure> pass_on(Failure failure) { return tl::unexpected<Failure>(std::move(failure)); }

/// errno as text: "Connection refused (ECONNREFUSED)".
std::string errno_text(int error);

/// Turns a failure into the exception of the C++ surface.
[[noreturn]] void throw_failure(const Failure& failure);

/// Returns the value, or throws what went wrong.
template <class T>
T value_or_throw(Result<T>&& result) {
  if (!result) throw_failure(result.error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace peal

/// `PEAL_TRY(expr)`: returns the failure of a Status-like expression to the caller.
#define PEAL_TRY(...)                                                                                                          \
  do {                                                                                                                         \
    if (auto peal_try_result_ = (__VA_ARGS__); !peal_try_result_) return ::peal::pass_on(std::move(peal_try_result_).error()); \
  } while (false)
#define PEAL_JOIN_INNER_(a, b) a##b
#define PEAL_JOIN_(a, b) PEAL_JOIN_INNER_(a, b)
/// `PEAL_ASSIGN(auto x, expr)`: x = value of the Result, or returns its failure to the caller.
#define PEAL_ASSIGN(declaration, ...) PEAL_ASSIGN_(PEAL_JOIN_(peal_result_, __LINE__), declaration, __VA_ARGS__)
#define PEAL_ASSIGN_(name, declaration, ...)                  \
  auto name = (__VA_ARGS__);                                  \
  if (!name) return ::peal::pass_on(std::move(name).error()); \
  declaration = std::move(*name)
