// Conformance: operators new and delete behave as C++ specifies. The test runs under any malloc.
//
// Compile as C++17 or later, with -fno-builtin, so that no pair of new and delete is removed. A failed check prints its
// line, and the exit code is 1.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#define CHECK(that)                                                               \
    do {                                                                          \
        if (!(that)) {                                                            \
            std::fprintf(stderr, "conformance.cc:%d: not %s\n", __LINE__, #that); \
            std::exit(1);                                                         \
        }                                                                         \
    } while (0)

namespace {

// A size larger than any address space, in a volatile variable so that a compiler cannot know its value.
volatile std::size_t absurd = SIZE_MAX / 4;
int handled = 0;

bool is_aligned(const void *object, std::size_t align) {
    return reinterpret_cast<std::uintptr_t>(object) % align == 0;
}

// Returns whether `request` throws an Error.
template <class Error, class Request> bool throws(Request request) {
    try {
        request();
    } catch (const Error &) {
        return true;
    }
    return false;
}

void plain() {
    for (std::size_t size = 0; size < 200000; size += size / 3 + 1) {
        void *one = ::operator new(size), *many = ::operator new[](size);
        void *quiet = ::operator new(size, std::nothrow), *quiet_many = ::operator new[](size, std::nothrow);
        for (void *object : {one, many, quiet, quiet_many}) {
            CHECK(object && is_aligned(object, size > 8 ? 16 : 8));
            std::memset(object, 0x5a, size);
        }
        CHECK(one != many && quiet != quiet_many && many != quiet);
        ::operator delete(one);
        ::operator delete[](many, size);
        ::operator delete(quiet, std::nothrow);
        ::operator delete[](quiet_many, std::nothrow);
    }
    ::operator delete(nullptr);
    ::operator delete[](nullptr, std::size_t{8});
}

void aligned() {
    for (std::size_t align = 1; align <= 1 << 21; align *= 2) {
        const auto to = static_cast<std::align_val_t>(align);
        for (std::size_t size : {0, 1, 24, 100, 4096, 40000}) {
            void *one = ::operator new(size, to), *many = ::operator new[](size, to);
            void *quiet = ::operator new(size, to, std::nothrow);
            void *quiet_many = ::operator new[](size, to, std::nothrow);
            for (void *object : {one, many, quiet, quiet_many}) {
                CHECK(object && is_aligned(object, align));
                std::memset(object, 0x5a, size);
            }
            CHECK(one != many && quiet != quiet_many && many != quiet);
            ::operator delete(one, to);
            ::operator delete[](many, size, to);
            ::operator delete(quiet, to, std::nothrow);
            ::operator delete[](quiet_many, size, to);
        }
    }
    struct alignas(256) Wide {
        char bytes[300];
    };
    auto *wide = new Wide[7];
    CHECK(is_aligned(wide, 256));
    delete[] wide;
}

// Checks that all throwing operators throw for an absurd size, and that objects on the stack are destroyed.
template <class Error> void absurd_requests_throw() {
    const auto page = std::align_val_t{4096};
    const std::string guard(1000, 'x');
    CHECK(throws<Error>([] { ::operator delete(::operator new(absurd)); }));
    CHECK(throws<Error>([] { ::operator delete[](::operator new[](absurd)); }));
    CHECK(throws<Error>([&] { ::operator delete(::operator new(absurd, page), page); }));
    CHECK(throws<Error>([&] { ::operator delete[](::operator new[](absurd, page), page); }));
    CHECK(throws<Error>([] {
        std::string destroyed(5000, 'y');
        std::vector<char> bytes;
        bytes.reserve(absurd);
    }));
    CHECK(guard == std::string(1000, 'x'));
}

void quiet_requests_give_null() {
    const auto page = std::align_val_t{4096};
    CHECK(::operator new(absurd, std::nothrow) == nullptr);
    CHECK(::operator new[](absurd, std::nothrow) == nullptr);
    CHECK(::operator new(absurd, page, std::nothrow) == nullptr);
    CHECK(::operator new[](absurd, page, std::nothrow) == nullptr);
}

struct Refusal {};

void refuse() {
    handled++;
    throw Refusal();
}

void refuse_as_usual() {
    handled++;
    throw std::bad_alloc();
}

// A handler that removes itself at its third call, so that the request fails.
void give_up() {
    if (++handled == 3) std::set_new_handler(nullptr);
}

void handlers() {
    std::set_new_handler(refuse);
    absurd_requests_throw<Refusal>();
    CHECK(handled == 5);
    handled = 0;
    std::set_new_handler(give_up);
    CHECK(throws<std::bad_alloc>([] { ::operator delete(::operator new(absurd)); }));
    CHECK(handled == 3);
    // An operator that returns null calls the handler as well, and returns null if the handler throws std::bad_alloc.
    handled = 0;
    std::set_new_handler(give_up);
    CHECK(::operator new(absurd, std::nothrow) == nullptr && handled == 3);
    handled = 0;
    std::set_new_handler(refuse_as_usual);
    quiet_requests_give_null();
    CHECK(handled == 4);
    std::set_new_handler(nullptr);
    quiet_requests_give_null();
}

// Typical work of programs: containers that grow, and exceptions that destroy containers.
void containers() {
    std::unordered_map<std::string, std::vector<std::string>> words;
    for (int n = 0; n < 50000; n++) words[std::to_string(n % 1000)].push_back(std::string(n % 300, 'z'));
    std::size_t letters = 0;
    for (const auto &[word, list] : words)
        for (const auto &text : list) letters += text.size();
    std::size_t expected = 0;
    for (int n = 0; n < 50000; n++) expected += n % 300;
    CHECK(letters == expected);
    for (int n = 0; n < 1000; n++) {
        CHECK(throws<std::string>([n] {
            std::vector<std::string> destroyed(n % 50, std::string(100, 'q'));
            throw std::string(n % 90, 'e');
        }));
    }
}

}  // namespace

int main() {
    plain();
    aligned();
    absurd_requests_throw<std::bad_alloc>();
    quiet_requests_give_null();
    handlers();
    absurd_requests_throw<std::bad_alloc>();
    containers();
    std::puts("conformance.cc: passed");
    return 0;
}
