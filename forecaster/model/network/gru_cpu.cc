// The recurrence of gru.py for one core of a processor, float32: `gru_cpu.py` compiles it, XLA calls it.
//
// A day's products, gates and what the gradient keeps of them are made while the numbers are in registers: a block of
// ROWS depots by one vector of units, of all three gates at once. As operations of XLA the gates would leave and enter
// memory several times. Formulas and the order of gates (r, z, n) are those of gru.py; arrays are dense, last axis
// fastest; `hidden` must be a multiple of W.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = xla::ffi;

#if defined(__AVX512F__)
constexpr int64_t W = 16, ROWS = 8;  // floats in a vector; depots whose sums of three gates fit into the registers
#elif defined(__AVX__)
constexpr int64_t W = 8, ROWS = 4;
#elif defined(__aarch64__)
constexpr int64_t W = 4, ROWS = 8;
#else
constexpr int64_t W = 4, ROWS = 4;
#endif
constexpr int64_t SUMMED = 128;  // rows at least that a gradient by weights sums over before it goes back to memory

typedef float Vector __attribute__((vector_size(4 * W), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(4 * W)));

struct Sizes {
  int64_t days, depots, inputs, hidden;
};

inline Vector load(const float* from) { return *reinterpret_cast<const Vector*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Vector*>(to) = value; }

// e^x to 2 units in the last place: x = k ln 2 + f with |f| <= ln 2 / 2, then Taylor's series of e^f times 2^k.
inline Vector exponential(Vector x) {
  x = x > 87.0f ? Vector{} + 87.0f : x;  // NaN stays NaN
  x = x < -87.0f ? Vector{} - 87.0f : x;
  const float rounding = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number, in its last bits
  const Vector shifted = x * 1.44269504f + rounding, k = shifted - rounding;
  const Vector f = (x - k * 0.693359375f) + k * 2.12194440e-4f;  // ln 2 in two parts
  Vector sum = f * (1.0f / 5040) + 1.0f / 720;
  for (const float term : {1.0f / 120, 1.0f / 24, 1.0f / 6, 1.0f / 2, 1.0f, 1.0f}) sum = sum * f + term;
  return reinterpret_cast<Vector>(reinterpret_cast<Bits>(sum) + (reinterpret_cast<Bits>(shifted) << 23));
}

inline Vector sigmoid(Vector x) { return 1.0f / (1.0f + exponential(-x)); }
inline Vector hyperbolic_tangent(Vector x) { return 1.0f - 2.0f / (1.0f + exponential(x + x)); }

// sums[r][c] += sum over k of a[r * row + k * step] * w[k * stride + c-th vector]
template <int64_t R, int64_t C>
inline __attribute__((always_inline)) void product(Vector (&sums)[R][C], const float* a, int64_t row, int64_t step,
                                                   const float* w, int64_t stride, int64_t terms) {
  for (int64_t k = 0; k < terms; ++k) {
    Vector of_k[C];
#pragma GCC unroll 8
    for (int64_t c = 0; c < C; ++c) of_k[c] = load(w + k * stride + c * W);
#pragma GCC unroll 8
    for (int64_t r = 0; r < R; ++r) {
      const float factor = a[r * row + k * step];
#pragma GCC unroll 8
      for (int64_t c = 0; c < C; ++c) sums[r][c] += factor * of_k[c];
    }
  }
}

// Calls `work` with the first row of each block and its number of rows, which the compiler knows.
template <class Work>
inline void in_blocks(int64_t rows, Work work) {
  int64_t first = 0;
  const auto blocks = [&](auto size) {
    for (; first + size <= rows; first += size) work(size, first);
  };
  blocks(std::integral_constant<int64_t, ROWS>{});
  blocks(std::integral_constant<int64_t, 2>{});
  blocks(std::integral_constant<int64_t, 1>{});
}

// to[r * to_row + c] += sum over k of a[r * row + k * step] * w[k * stride + c], for rows r and columns c.
void add_product(float* to, int64_t to_row, int64_t rows, int64_t columns, const float* a, int64_t row, int64_t step,
                 const float* w, int64_t stride, int64_t terms) {
  const auto vectors = [&](auto count, int64_t column) {
    in_blocks(rows, [&](auto size, int64_t r0) {
      constexpr int64_t R = size, C = count;
      Vector sums[R][C];
      float* block = to + r0 * to_row + column;
#pragma GCC unroll 8
      for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int64_t c = 0; c < C; ++c) sums[r][c] = load(block + r * to_row + c * W);
      product<R, C>(sums, a + r0 * row, row, step, w + column, stride, terms);
#pragma GCC unroll 8
      for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 8
        for (int64_t c = 0; c < C; ++c) store(block + r * to_row + c * W, sums[r][c]);
    });
  };
  int64_t column = 0;
  for (; column + 2 * W <= columns; column += 2 * W) vectors(std::integral_constant<int64_t, 2>{}, column);
  for (; column < columns; column += W) vectors(std::integral_constant<int64_t, 1>{}, column);
}

// Both kernels, for each vector of units one after the other what all three gates take from an input or a unit.
std::vector<float> by_units(const float* kernel_i, const float* kernel_h, const Sizes& size) {
  const int64_t gates = 3 * size.hidden;
  std::vector<float> strips((size.inputs + size.hidden) * gates);
  float* to = strips.data();
  for (int64_t unit = 0; unit < size.hidden; unit += W)
    for (int64_t k = 0; k < size.inputs + size.hidden; ++k) {
      const float* from = k < size.inputs ? kernel_i + k * gates : kernel_h + (k - size.inputs) * gates;
      for (int64_t gate = 0; gate < 3; ++gate, to += W)
        std::memcpy(to, from + gate * size.hidden + unit, W * sizeof(float));
    }
  return strips;
}

// `kept` may be null: it takes r, z, n and m = h W_hn of every day and depot, for the gradient.
void run_forward(const float* x, const float* bias, const float* kernel_i, const float* kernel_h, float* states,
                 float* kept, const Sizes& size) {
  const int64_t hidden = size.hidden, inputs = size.inputs;
  const std::vector<float> strips = by_units(kernel_i, kernel_h, size), start(size.depots * hidden, 0.0f);
  const float* before = start.data();
  for (int64_t day = 0; day < size.days; ++day) {
    for (int64_t unit = 0; unit < hidden; unit += W) {
      const float* strip = strips.data() + unit * 3 * (inputs + hidden);
      in_blocks(size.depots, [&](auto rows, int64_t depot) {
        constexpr int64_t R = rows;
        Vector sums[R][3], of_x[R];
#pragma GCC unroll 8
        for (int64_t r = 0; r < R; ++r)
#pragma GCC unroll 8
          for (int64_t gate = 0; gate < 3; ++gate)
            sums[r][gate] = load(bias + ((depot + r) * 3 + gate) * hidden + unit);
        product<R, 3>(sums, x + depot * inputs, inputs, 1, strip, 3 * W, inputs);
#pragma GCC unroll 8
        for (int64_t r = 0; r < R; ++r) {
          of_x[r] = sums[r][2];
          sums[r][2] = Vector{};
        }
        product<R, 3>(sums, before + depot * hidden, hidden, 1, strip + inputs * 3 * W, 3 * W, hidden);
#pragma GCC unroll 8
        for (int64_t r = 0; r < R; ++r) {
          const int64_t place = (depot + r) * hidden + unit;
          const Vector reset = sigmoid(sums[r][0]), z = sigmoid(sums[r][1]), m = sums[r][2];
          const Vector h = load(before + place), n = hyperbolic_tangent(of_x[r] + reset * m);
          store(states + place, n + z * (h - n));
          if (kept) {
            float* to = kept + (depot + r) * 4 * hidden + unit;
            store(to, reset);
            store(to + hidden, z);
            store(to + 2 * hidden, n);
            store(to + 3 * hidden, m);
          }
        }
      });
    }
    before = states;
    x += size.depots * inputs;
    states += size.depots * hidden;
    if (kept) kept += size.depots * 4 * hidden;
  }
}

// One day's gradients by r, z, n and m before their sigmoids and tanh, from `towards`, the gradient by its states that
// later days have left; leaves there what goes on to the day before, but for what passes through the kernel.
void day_backward(const float* given, const float* before, const float* kept, float* towards, float* by_x, float* by_m,
                  float* d_bias, const Sizes& size) {
  const int64_t hidden = size.hidden;
  for (int64_t depot = 0; depot < size.depots; ++depot)
    for (int64_t unit = 0; unit < hidden; unit += W) {
      const int64_t place = depot * hidden + unit;
      const float* of_day = kept + depot * 4 * hidden + unit;
      const Vector r = load(of_day), z = load(of_day + hidden), n = load(of_day + 2 * hidden);
      const Vector m = load(of_day + 3 * hidden), h = load(before + place);
      const Vector dh = load(given + place) + load(towards + place), new_part = dh * (1.0f - z);
      const Vector d_n = new_part * (1.0f - n * n), d_m = d_n * r;
      const Vector all[3] = {d_m * m * (1.0f - r), new_part * (h - n) * z, d_n};
      store(towards + place, dh * z);
      store(by_m + place, d_m);
      for (int64_t gate = 0; gate < 3; ++gate) {
        const int64_t of_gate = (depot * 3 + gate) * hidden + unit;
        store(by_x + of_gate, all[gate]);
        store(d_bias + of_gate, load(d_bias + of_gate) + all[gate]);
      }
    }
}

void run_backward(const float* given, const float* x, const float* kernel_h, const float* states, const float* kept,
                  float* by_x, float* d_kernel_i, float* d_bias, float* d_kernel_h, const Sizes& size) {
  const int64_t hidden = size.hidden, gates = 3 * hidden, depots = size.depots, inputs = size.inputs;
  const int64_t chunk = std::max<int64_t>(1, SUMMED / std::max<int64_t>(1, depots));  // days
  const std::vector<float> start(depots * hidden, 0.0f);
  std::vector<float> turned(gates * hidden), towards(depots * hidden, 0.0f), by_m(chunk * depots * hidden);
  for (int64_t k = 0; k < hidden; ++k)
    for (int64_t gate = 0; gate < gates; ++gate) turned[gate * hidden + k] = kernel_h[k * gates + gate];
  std::fill_n(d_kernel_i, inputs * gates, 0.0f);
  std::fill_n(d_bias, depots * gates, 0.0f);
  std::fill_n(d_kernel_h, hidden * gates, 0.0f);
  for (int64_t end = size.days; end > 0; end -= chunk) {
    const int64_t first = std::max<int64_t>(0, end - chunk);
    for (int64_t day = end - 1; day >= first; --day) {
      const float* before = day ? states + (day - 1) * depots * hidden : start.data();
      float *of_day = by_x + day * depots * gates, *of_m = by_m.data() + (day - first) * depots * hidden;
      day_backward(given + day * depots * hidden, before, kept + day * depots * 4 * hidden, towards.data(), of_day,
                   of_m, d_bias, size);
      if (day == 0) break;
      add_product(towards.data(), hidden, depots, hidden, of_day, gates, 1, turned.data(), hidden, 2 * hidden);
      add_product(towards.data(), hidden, depots, hidden, of_m, hidden, 1, turned.data() + 2 * hidden * hidden, hidden,
                  hidden);
    }
    const float *of_x = x + first * depots * inputs, *of_gates = by_x + first * depots * gates;
    add_product(d_kernel_i, gates, inputs, gates, of_x, 1, inputs, of_gates, gates, (end - first) * depots);
    const int64_t later = std::max<int64_t>(first, 1), rows = (end - later) * depots;  // day 0 starts from zeros
    const float* before = states + (later - 1) * depots * hidden;
    add_product(d_kernel_h, gates, hidden, 2 * hidden, before, 1, hidden, by_x + later * depots * gates, gates, rows);
    add_product(d_kernel_h + 2 * hidden, gates, hidden, hidden, before, 1, hidden,
                by_m.data() + (later - first) * depots * hidden, hidden, rows);
  }
}

using Matrix = ffi::Buffer<ffi::F32, 2>;
using Days = ffi::Buffer<ffi::F32, 3>;
using MatrixOut = ffi::Result<Matrix>;
using DaysOut = ffi::Result<Days>;

Sizes sizes(const Days& x, const Matrix& kernel_h) {
  const auto of_x = x.dimensions();
  return {of_x[0], of_x[1], of_x[2], kernel_h.dimensions()[0]};
}

ffi::Error refusal(const Sizes& size) {
  if (size.hidden % W == 0) return ffi::Error::Success();
  return ffi::Error::InvalidArgument("hidden is " + std::to_string(size.hidden) + ", wanted a multiple of " +
                                     std::to_string(W));
}

ffi::Error states_only(Days x, Matrix bias, Matrix kernel_i, Matrix kernel_h, DaysOut states) {
  const Sizes size = sizes(x, kernel_h);
  if (auto error = refusal(size); error.failure()) return error;
  run_forward(x.typed_data(), bias.typed_data(), kernel_i.typed_data(), kernel_h.typed_data(), states->typed_data(),
              nullptr, size);
  return ffi::Error::Success();
}

ffi::Error states_and_kept(Days x, Matrix bias, Matrix kernel_i, Matrix kernel_h, DaysOut states, DaysOut kept) {
  const Sizes size = sizes(x, kernel_h);
  if (auto error = refusal(size); error.failure()) return error;
  run_forward(x.typed_data(), bias.typed_data(), kernel_i.typed_data(), kernel_h.typed_data(), states->typed_data(),
              kept->typed_data(), size);
  return ffi::Error::Success();
}

ffi::Error gradients(Days given, Days x, Matrix kernel_h, Days states, Days kept, DaysOut by_x, MatrixOut d_kernel_i,
                     MatrixOut d_bias, MatrixOut d_kernel_h) {
  const Sizes size = sizes(x, kernel_h);
  if (auto error = refusal(size); error.failure()) return error;
  run_backward(given.typed_data(), x.typed_data(), kernel_h.typed_data(), states.typed_data(), kept.typed_data(),
               by_x->typed_data(), d_kernel_i->typed_data(), d_bias->typed_data(), d_kernel_h->typed_data(), size);
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    forecaster_gru_states, states_only,
    ffi::Ffi::Bind().Arg<Days>().Arg<Matrix>().Arg<Matrix>().Arg<Matrix>().Ret<Days>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    forecaster_gru_forward, states_and_kept,
    ffi::Ffi::Bind().Arg<Days>().Arg<Matrix>().Arg<Matrix>().Arg<Matrix>().Ret<Days>().Ret<Days>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(forecaster_gru_backward, gradients,
                              ffi::Ffi::Bind()
                                  .Arg<Days>()
                                  .Arg<Days>()
                                  .Arg<Matrix>()
                                  .Arg<Days>()
                                  .Arg<Days>()
                                  .Ret<Days>()
                                  .Ret<Matrix>()
                                  .Ret<Matrix>()
                                  .Ret<Matrix>());
