/*
 * CRC32C for Node, by carry-less multiplication (docs/decisions/0044-native-crc32c.md).
 *
 * A message is a polynomial over GF(2), and its CRC is the remainder of a division by P. Each step
 * multiplies 128 bits by x^D mod P and adds the 128 bits that lie D bits behind. The remainder
 * stays the same, and the message is D bits shorter. Eight sums at a time keep the multiplier
 * busy. The instruction for CRC32C divides the last 128 bits and what follows them.
 *
 * The module needs no library, so one file loads with glibc and with musl. It has no state that
 * changes, so threads share it. Bits are reflected everywhere: bit 0 stands for the highest power.
 */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef __SIZE_TYPE__ size;
typedef u64 unaligned_u64 __attribute__((aligned(1), may_alias));
typedef u64 vec128 __attribute__((vector_size(16)));
typedef vec128 unaligned_vec128 __attribute__((aligned(1), may_alias));

/* Continues the register `crc` over `n` bytes. */
typedef u32 kernel(u32 crc, const u8 *bytes, size n);

enum { SUMS = 8 };

/* x^(D+32) mod P for the lower half, x^(D-32) mod P for the upper half. Both shifted by a bit. */
static const vec128 FOLD_128_BITS = {0xf20c0dfe, 0x14cd00bd6};
static const vec128 FOLD_1024_BITS = {0x6992cea2, 0xd3b6092};

static vec128 load128(const u8 *bytes) { return *(const unaligned_vec128 *)bytes; }

#if defined(__x86_64__)

#include <immintrin.h>

#define TARGET_128 __attribute__((target("crc32,pclmul,sse4.2")))
#define TARGET_256 __attribute__((target("crc32,pclmul,sse4.2,avx2,vpclmulqdq")))

typedef u64 vec256 __attribute__((vector_size(32)));
typedef vec256 unaligned_vec256 __attribute__((aligned(1), may_alias));

static const vec256 FOLD_256_BITS = {0x1384aa63a, 0xba4fc28e, 0x1384aa63a, 0xba4fc28e};
static const vec256 FOLD_2048_BITS = {0xdcb17aa4, 0xb9e02b86, 0xdcb17aa4, 0xb9e02b86};

TARGET_128 static u64 crc_of_8(u64 crc, u64 bytes) { return _mm_crc32_u64(crc, bytes); }
TARGET_128 static u32 crc_of_1(u32 crc, u8 byte) { return _mm_crc32_u8(crc, byte); }

TARGET_128 static vec128 fold128(vec128 sum, vec128 factors, vec128 next) {
  vec128 low = (vec128)_mm_clmulepi64_si128((__m128i)sum, (__m128i)factors, 0x00);
  vec128 high = (vec128)_mm_clmulepi64_si128((__m128i)sum, (__m128i)factors, 0x11);
  return low ^ high ^ next;
}

TARGET_256 static vec256 load256(const u8 *bytes) { return *(const unaligned_vec256 *)bytes; }

TARGET_256 static vec256 fold256(vec256 sum, vec256 factors, vec256 next) {
  vec256 low = (vec256)_mm256_clmulepi64_epi128((__m256i)sum, (__m256i)factors, 0x00);
  vec256 high = (vec256)_mm256_clmulepi64_epi128((__m256i)sum, (__m256i)factors, 0x11);
  return low ^ high ^ next;
}

#elif defined(__aarch64__)

#include <arm_neon.h>

#define TARGET_128 __attribute__((target("crc,aes")))

TARGET_128 static u64 crc_of_8(u64 crc, u64 bytes) {
  return __builtin_arm_crc32cd((u32)crc, bytes);
}
TARGET_128 static u32 crc_of_1(u32 crc, u8 byte) { return __builtin_arm_crc32cb(crc, byte); }

TARGET_128 static vec128 fold128(vec128 sum, vec128 factors, vec128 next) {
  vec128 low = (vec128)vmull_p64((poly64_t)sum[0], (poly64_t)factors[0]);
  vec128 high = (vec128)vmull_high_p64((poly64x2_t)sum, (poly64x2_t)factors);
  return low ^ high ^ next;
}

#endif

/* For inputs that are too short to fold. */
TARGET_128 static u32 crc_of_few(u64 crc, const u8 *bytes, size n) {
  for (; n >= 8; bytes += 8, n -= 8) crc = crc_of_8(crc, *(const unaligned_u64 *)bytes);
  u32 rest = (u32)crc;
  for (; n > 0; bytes++, n--) rest = crc_of_1(rest, *bytes);
  return rest;
}

TARGET_128 static u32 crc_after(vec128 sum, const u8 *bytes, size n) {
  return crc_of_few(crc_of_8(crc_of_8(0, sum[0]), sum[1]), bytes, n);
}

TARGET_128 static u32 crc_by_128_bits(u32 crc, const u8 *bytes, size n) {
  enum { LANE = 16, BLOCK = SUMS * LANE };
  if (n < BLOCK) return crc_of_few(crc, bytes, n);
  vec128 sums[SUMS];
  for (int i = 0; i < SUMS; i++) sums[i] = load128(bytes + i * LANE);
  sums[0] ^= (vec128){crc, 0};
  for (bytes += BLOCK, n -= BLOCK; n >= BLOCK; bytes += BLOCK, n -= BLOCK)
    for (int i = 0; i < SUMS; i++)
      sums[i] = fold128(sums[i], FOLD_1024_BITS, load128(bytes + i * LANE));
  vec128 sum = sums[0];
  for (int i = 1; i < SUMS; i++) sum = fold128(sum, FOLD_128_BITS, sums[i]);
  for (; n >= LANE; bytes += LANE, n -= LANE) sum = fold128(sum, FOLD_128_BITS, load128(bytes));
  return crc_after(sum, bytes, n);
}

#if defined(__x86_64__)

TARGET_256 static u32 crc_by_256_bits(u32 crc, const u8 *bytes, size n) {
  enum { LANE = 32, BLOCK = SUMS * LANE };
  if (n < BLOCK) return crc_by_128_bits(crc, bytes, n);
  vec256 sums[SUMS];
  for (int i = 0; i < SUMS; i++) sums[i] = load256(bytes + i * LANE);
  sums[0] ^= (vec256){crc, 0, 0, 0};
  for (bytes += BLOCK, n -= BLOCK; n >= BLOCK; bytes += BLOCK, n -= BLOCK)
    for (int i = 0; i < SUMS; i++)
      sums[i] = fold256(sums[i], FOLD_2048_BITS, load256(bytes + i * LANE));
  vec256 sum = sums[0];
  for (int i = 1; i < SUMS; i++) sum = fold256(sum, FOLD_256_BITS, sums[i]);
  for (; n >= LANE; bytes += LANE, n -= LANE) sum = fold256(sum, FOLD_256_BITS, load256(bytes));
  vec128 first = {sum[0], sum[1]}, second = {sum[2], sum[3]};
  return crc_after(fold128(first, FOLD_128_BITS, second), bytes, n);
}

static void cpuid(u32 leaf, u32 *b, u32 *c) {
  u32 a = leaf, d;
  *c = 0;
  __asm__ volatile("cpuid" : "+a"(a), "=b"(*b), "+c"(*c), "=d"(d));
}

static int has_128_bits(void) {
  enum { PCLMULQDQ = 1 << 1, SSE4_2 = 1 << 20, NEEDED = PCLMULQDQ | SSE4_2 };
  u32 b, c;
  cpuid(1, &b, &c);
  return (c & NEEDED) == NEEDED;
}

/* The operating system must save the wide registers too. */
static int has_256_bits(void) {
  enum { OSXSAVE = 1 << 27, AVX = 1 << 28, AVX2 = 1 << 5, VPCLMULQDQ = 1 << 10, XMM_AND_YMM = 6 };
  u32 b, c, saved, high;
  cpuid(0, &b, &c);
  cpuid(1, &b, &c);
  if (!(c & OSXSAVE) || !(c & AVX) || !has_128_bits()) return 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  cpuid(7, &b, &c);
  return (saved & XMM_AND_YMM) == XMM_AND_YMM && (b & AVX2) && (c & VPCLMULQDQ);
}

#else

/* The C library defines it, and Node has loaded that. */
extern unsigned long getauxval(unsigned long type) __attribute__((weak));

static int has_128_bits(void) {
  enum { AT_HWCAP = 16, PMULL = 1 << 4, CRC32 = 1 << 7, NEEDED = PMULL | CRC32 };
  return getauxval && (getauxval(AT_HWCAP) & NEEDED) == NEEDED;
}

#endif

/* Node-API, from js_native_api.h. */
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_info;
typedef napi_value napi_callback(napi_env, napi_info);
enum { NAPI_OK = 0, NAPI_UINT8_ARRAY = 1, NAPI_VERSION = 8, NAPI_AUTO_LENGTH = -1 };

int napi_create_function(napi_env, const char *, size, napi_callback *, void *, napi_value *);
int napi_create_object(napi_env, napi_value *);
int napi_create_uint32(napi_env, u32, napi_value *);
int napi_get_cb_info(napi_env, napi_info, size *, napi_value *, napi_value *, void **);
int napi_get_typedarray_info(napi_env, napi_value, int *, size *, void **, napi_value *, size *);
int napi_get_value_uint32(napi_env, napi_value, u32 *);
int napi_set_named_property(napi_env, napi_value, const char *, napi_value);
int napi_throw_type_error(napi_env, const char *, const char *);

/* crc32c(bytes, seed), with the kernel as its data. */
static napi_value call(napi_env env, napi_info info) {
  size count = 2, n;
  napi_value args[2], result = 0;
  void *chosen, *bytes;
  int type;
  u32 seed;
  if (napi_get_cb_info(env, info, &count, args, 0, &chosen) != NAPI_OK) return 0;
  if (napi_get_typedarray_info(env, args[0], &type, &n, &bytes, 0, 0) != NAPI_OK ||
      type != NAPI_UINT8_ARRAY || napi_get_value_uint32(env, args[1], &seed) != NAPI_OK) {
    napi_throw_type_error(env, 0, "crc32c takes a Uint8Array and a number");
    return 0;
  }
  napi_create_uint32(env, ~((kernel *)chosen)(~seed, bytes, n), &result);
  return result;
}

static void add_kernel(napi_env env, napi_value exports, napi_value kernels, const char *name,
                       kernel *chosen) {
  napi_value function;
  if (napi_create_function(env, "crc32c", NAPI_AUTO_LENGTH, call, (void *)chosen, &function))
    return;
  napi_set_named_property(env, kernels, name, function);
  napi_set_named_property(env, exports, "crc32c", function);
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int node_api_module_get_api_version_v1(void) { return NAPI_VERSION; }

/*
 * Exports `kernels`, a function for each way that this processor can compute it, and `crc32c`, the
 * fastest of them. Without any there is no `crc32c`.
 */
EXPORTED napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value kernels;
  if (napi_create_object(env, &kernels) != NAPI_OK) return 0;
  napi_set_named_property(env, exports, "kernels", kernels);
  if (has_128_bits()) add_kernel(env, exports, kernels, "128 bits", crc_by_128_bits);
#if defined(__x86_64__)
  if (has_256_bits()) add_kernel(env, exports, kernels, "256 bits", crc_by_256_bits);
#endif
  return exports;
}
