/* Soft, a floating-point number made of integer operations; crates/model/control/src/soft.rs
 * documents it. This is the same arithmetic, function by function, with bit-equal results.
 *
 * Every operation is a global function that is not inlined, so that the verifier checks it once. If
 * they were inlined, it would follow every path through each of them and exceed its limits.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

typedef u64 soft;

#define SOFT_GLOBAL __attribute__((noinline))
#define SOFT_SIGN (1ULL << 63)
#define SOFT_LARGEST 0xffffffffffffULL
#define SOFT_BIAS 32768

/* A compile-time integer below 2^32. */
#define SOFT(n) ((n) ? (u64)(SOFT_BIAS - __builtin_clz(n)) << 32 | (u32)(n) << __builtin_clz(n) : 0)

static inline u64 soft_mantissa(soft a)
{
	return (u32)a;
}

static inline s32 soft_exponent(soft a)
{
	return (s32)(a >> 32 & 0xffff) - SOFT_BIAS;
}

static inline u64 soft_sign(soft a)
{
	return a & SOFT_SIGN;
}

static inline soft soft_pack(u64 m, s32 e, u64 sign)
{
	s32 biased = e + SOFT_BIAS;

	if (biased > 0xffff)
		return sign | SOFT_LARGEST;
	if (biased < 0)
		return 0;
	return sign | (u64)biased << 32 | m;
}

static inline soft soft_round(u64 v, s32 e, u64 sign)
{
	u64 m = (v >> 32) + (v >> 31 & 1);
	u64 carry = m >> 32;

	return soft_pack(m >> carry, e + 32 + (s32)carry, sign);
}

/* The instruction set cannot count leading zeros: bisection. */
static inline soft soft_normal(u64 v, s32 e, u64 sign)
{
	u64 shift = 0, step;

	if (!v)
		return 0;
#define SOFT_HALF(log) \
	step = ((v >> (64 - (1 << log))) - 1) >> 63 << log; \
	v <<= step; \
	shift += step;
	SOFT_HALF(5) SOFT_HALF(4) SOFT_HALF(3) SOFT_HALF(2) SOFT_HALF(1) SOFT_HALF(0)
#undef SOFT_HALF
	return soft_round(v, e - (s32)shift, sign);
}

static inline s64 soft_key(soft a)
{
	s64 magnitude = (s64)(a & ~SOFT_SIGN);

	return soft_sign(a) ? -magnitude : magnitude;
}

/* v 2^e */
SOFT_GLOBAL soft soft_scaled(u64 v, s32 e)
{
	return soft_normal(v, e, 0);
}

SOFT_GLOBAL soft soft_mul(soft a, soft b)
{
	u64 product, shift;

	if (!a || !b)
		return 0;
	product = soft_mantissa(a) * soft_mantissa(b);
	shift = 1 - (product >> 63);
	return soft_round(product << shift, soft_exponent(a) + soft_exponent(b) - (s32)shift,
			  soft_sign(a) ^ soft_sign(b));
}

SOFT_GLOBAL soft soft_div(soft a, soft b)
{
	u64 sign = soft_sign(a) ^ soft_sign(b);
	u32 shift;

	if (!a)
		return 0;
	if (!b)
		return sign | SOFT_LARGEST;
	shift = soft_mantissa(a) < soft_mantissa(b) ? 32 : 31;
	return soft_pack(((soft_mantissa(a) << shift) + (soft_mantissa(b) >> 1)) / soft_mantissa(b),
			 soft_exponent(a) - soft_exponent(b) - (s32)shift, sign);
}

SOFT_GLOBAL soft soft_add(soft a, soft b)
{
	s32 distance;
	s64 y;

	if ((a & ~SOFT_SIGN) < (b & ~SOFT_SIGN)) {
		soft swapped = a;

		a = b;
		b = swapped;
	}
	if (!b)
		return a;
	distance = soft_exponent(a) - soft_exponent(b);
	if (distance > 63)
		distance = 63;
	y = (s64)(soft_mantissa(b) << 31);
	y = (soft_sign(a) == soft_sign(b) ? y : -y) >> distance;
	return soft_normal((soft_mantissa(a) << 31) + (u64)y, soft_exponent(a) - 31, soft_sign(a));
}

SOFT_GLOBAL soft soft_sub(soft a, soft b)
{
	return soft_add(a, b ? b ^ SOFT_SIGN : 0);
}

SOFT_GLOBAL u32 soft_less(soft a, soft b)
{
	return soft_key(a) < soft_key(b);
}

SOFT_GLOBAL u32 soft_at_least(soft a, soft b)
{
	return soft_key(a) >= soft_key(b);
}

SOFT_GLOBAL soft soft_max(soft a, soft b)
{
	return soft_key(a) >= soft_key(b) ? a : b;
}

SOFT_GLOBAL soft soft_min(soft a, soft b)
{
	return soft_key(a) <= soft_key(b) ? a : b;
}

/* In units of 2^-32, rounded towards zero, within -2^62 to 2^62. */
SOFT_GLOBAL u64 soft_to_fixed(soft a)
{
	s32 shift = soft_exponent(a) + 32;
	u64 magnitude;

	if (shift > 30)
		magnitude = 1ULL << 62;
	else if (shift >= 0)
		magnitude = soft_mantissa(a) << (shift & 31);
	else
		magnitude = shift > -32 ? soft_mantissa(a) >> (-shift & 31) : 0;
	return soft_sign(a) ? -magnitude : magnitude;
}

static inline soft soft_of(u64 n)
{
	return soft_scaled(n, 0);
}
