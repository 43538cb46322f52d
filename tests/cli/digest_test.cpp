#include <gtest/gtest.h>

#include <cli/digest.hpp>
#include <string_view>

namespace peal::cli {
namespace {

std::string digest_of(std::string_view text) { return hex_of(sha256(std::as_bytes(std::span(text)))); }

TEST(Digest, TheExamplesOfTheStandard) {  // FIPS 180-4, and RFC 6234
  EXPECT_EQ(digest_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

}  // namespace
}  // namespace peal::cli
