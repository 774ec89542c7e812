/*@ vector */
/* Vectors of the width that the processor has, where the compiler has them; loads and stores need no alignment. */
#if defined(__GNUC__) && (defined(__SSE__) || defined(__ARM_NEON))
#if defined(__AVX512F__)
#define ASHORE_LANES 16
#elif defined(__AVX__)
#define ASHORE_LANES 8
#else
#define ASHORE_LANES 4
#endif
typedef float native_vec __attribute__((vector_size(4 * ASHORE_LANES), aligned(4), may_alias));
#define ASHORE_LOAD(from) (*(const native_vec *)(from))
#define ASHORE_STORE(to) (*(native_vec *)(to))
#else
#define ASHORE_LANES 1
typedef float native_vec;
#define ASHORE_LOAD(from) (*(from))
#define ASHORE_STORE(to) (*(to))
#endif

/*@ native_bits */
static inline int32_t native_bits(float x)
{
    int32_t n;
    memcpy(&n, &x, sizeof n);
    return n;
}

/*@ native_power_of_two */
static inline float native_power_of_two(uint32_t n)
{
    const uint32_t bits = (n + 127u) << 23;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/*@ native_exp : native_bits native_power_of_two */
/* e to the x: 2^n times a polynomial over [-ln 2 / 2, ln 2 / 2], the one of ONNX Runtime. Without branches, so that
 * loops become vectors. */
static inline float native_exp(float x)
{
    float t, r, p;
    uint32_t n, half; /* a negative number wraps around, and so does what NaN makes of them */
    x = x < -103.972084f ? -103.972084f : x;
    x = x > 88.7762626647950f ? 88.7762626647950f : x;
    t = x * 1.44269504088896341f + 12582912.0f; /* adding 1.5 * 2^23 rounds to a whole number, in the low bits */
    n = (uint32_t)native_bits(t) - 0x4B400000u;
    t -= 12582912.0f;
    r = t * -6.93145752e-1f + x;
    r = t * -1.42860677e-6f + r;
    p = 1.37805939e-3f;
    p = p * r + 8.37312452e-3f;
    p = p * r + 4.16695364e-2f;
    p = p * r + 1.66664720e-1f;
    p = p * r + 4.99999851e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    half = ((n + 512u) >> 1) - 256u; /* in two steps, since 2^n alone may not be a float */
    return p * native_power_of_two(half) * native_power_of_two(n - half);
}

/*@ native_sigmoid */
/* One half and a quotient of polynomials, as ONNX Runtime has it: nothing is left below -18. */
static inline float native_sigmoid(float x)
{
    float s, p, q;
    x = x < -18.0f ? -18.0f : x;
    x = x > 18.0f ? 18.0f : x;
    s = x * x;
    p = 4.37031012579801e-11f;
    p = p * s + 1.15627324459942e-07f;
    p = p * s + 6.08574864600143e-05f;
    p = p * s + 8.51377133304701e-03f;
    p = p * s + 2.48287947061529e-01f;
    q = 6.10247389755681e-13f;
    q = q * s + 5.76102136993427e-09f;
    q = q * s + 6.29106785017040e-06f;
    q = q * s + 1.70198817374094e-03f;
    q = q * s + 1.16817656904453e-01f;
    q = q * s + 9.93151921023180e-01f;
    q = p * x / q + 0.5f;
    q = q < 0.0f ? 0.0f : q;
    return q > 1.0f ? 1.0f : q;
}

/*@ native_tanh */
/* A quotient of polynomials, within a few units of the last place. */
static inline float native_tanh(float x)
{
    float s, p, q;
    x = x < -9.0f ? -9.0f : x;
    x = x > 9.0f ? 9.0f : x;
    s = x * x;
    p = -2.76076847742355e-16f;
    p = p * s + 2.00018790482477e-13f;
    p = p * s + -8.60467152213735e-11f;
    p = p * s + 5.12229709037114e-08f;
    p = p * s + 1.48572235717979e-05f;
    p = p * s + 6.37261928875436e-04f;
    p = p * s + 4.89352455891786e-03f;
    q = 1.19825839466702e-06f;
    q = q * s + 1.18534705686654e-04f;
    q = q * s + 2.26843463243900e-03f;
    q = q * s + 4.89352518554385e-03f;
    return p * x / q;
}

/*@ native_erf */
static inline float native_erf(float x)
{
    float s, p, q;
    x = x < -4.0f ? -4.0f : x;
    x = x > 4.0f ? 4.0f : x;
    s = x * x;
    p = -2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s + -2.10102402082508e-06f;
    p = p * s + -5.69250639462346e-05f;
    p = p * s + -7.34990630326855e-04f;
    p = p * s + -2.95459980854025e-03f;
    p = p * s + -1.60960333262415e-02f;
    q = -1.45660718464996e-05f;
    q = q * s + -2.13374055278905e-04f;
    q = q * s + -1.68282697438203e-03f;
    q = q * s + -7.37332916720468e-03f;
    q = q * s + -1.42647390514189e-02f;
    return p * x / q;
}

/*@ native_bad_f32 : native_bits */
/* The first element that is NaN or infinite, or n. */
static size_t native_bad_f32(const float *x, size_t n)
{
    int32_t most = 0;
    size_t i;
    for (i = 0; i < n; ++i) {
        int32_t size = native_bits(x[i]) & 0x7FFFFFFF;
        most = size > most ? size : most;
    }
    if (most < 0x7F800000)
        return n;
    for (i = 0; i < n && (native_bits(x[i]) & 0x7FFFFFFF) < 0x7F800000; ++i) {
    }
    return i;
}

/*@ native_bad_f64 */
static size_t native_bad_f64(const double *x, size_t n)
{
    size_t i;
    for (i = 0; i < n && x[i] - x[i] == 0.0; ++i) {
    }
    return i;
}

/*@ native_dense : vector */
/* Matrix products with constant weights, which lie in panels: all rows of the first 128 columns, of the next 128, and
 * so on; the last columns in panels of 64, 32 and 16, filled up with zeros. So weights are read once, in order, and the
 * sums stay in registers.
 *
 * Every element is summed up in order, in blocks of 256 products: with fused multiply-adds that is, to the bit, what
 * ONNX Runtime computes. Each function below makes one block of ROWS rows of VECTORS vectors. */
#define ASHORE_BLOCK 256
#define ASHORE_PANEL(NAME, ROWS, VECTORS)                                                                              \
    static void NAME(const float *ASHORE_RESTRICT w, size_t width, const float *ASHORE_RESTRICT x, size_t x_row,       \
                     size_t depth, const float *start, size_t start_row, float *y, size_t y_row, size_t valid)         \
    {                                                                                                                  \
        const native_vec zero = {0};                                                                                   \
        native_vec sums[ROWS][VECTORS];                                                                                \
        size_t d;                                                                                                      \
        int r, v;                                                                                                      \
        for (r = 0; r < (ROWS); ++r)                                                                                   \
            for (v = 0; v < (VECTORS); ++v)                                                                            \
                sums[r][v] = zero;                                                                                     \
        for (d = 0; d < depth; ++d)                                                                                    \
            for (v = 0; v < (VECTORS); ++v) {                                                                          \
                const native_vec part = ASHORE_LOAD(w + d * width + v * ASHORE_LANES);                                 \
                for (r = 0; r < (ROWS); ++r)                                                                           \
                    sums[r][v] += part * x[(size_t)r * x_row + d];                                                     \
            }                                                                                                          \
        if (valid >= (VECTORS)*ASHORE_LANES) {                                                                         \
            for (r = 0; r < (ROWS); ++r)                                                                               \
                for (v = 0; v < (VECTORS); ++v)                                                                        \
                    ASHORE_STORE(y + (size_t)r * y_row + v * ASHORE_LANES) =                                           \
                        ASHORE_LOAD(start + (size_t)r * start_row + v * ASHORE_LANES) + sums[r][v];                    \
        } else {                                                                                                       \
            for (r = 0; r < (ROWS); ++r) {                                                                             \
                float row[(VECTORS)*ASHORE_LANES] = {0};                                                               \
                memcpy(row, start + (size_t)r * start_row, valid * sizeof(float));                                     \
                for (v = 0; v < (VECTORS); ++v)                                                                        \
                    ASHORE_STORE(row + v * ASHORE_LANES) = ASHORE_LOAD(row + v * ASHORE_LANES) + sums[r][v];           \
                memcpy(y + (size_t)r * y_row, row, valid * sizeof(float));                                             \
            }                                                                                                          \
        }                                                                                                              \
    }

/* One row at a time there are registers for eight sums; several rows share what they load of the weights. */
#if ASHORE_LANES == 16
ASHORE_PANEL(native_panel_128, 1, 8)
ASHORE_PANEL(native_panel_64, 1, 4)
ASHORE_PANEL(native_panel_32, 1, 2)
ASHORE_PANEL(native_panel_16, 1, 1)
ASHORE_PANEL(native_rows_64, 4, 4)
ASHORE_PANEL(native_rows_32, 4, 2)
ASHORE_PANEL(native_rows_16, 4, 1)
#define ASHORE_STRIP 128
#define ASHORE_ROWS_STRIP 64
#elif ASHORE_LANES == 8
ASHORE_PANEL(native_panel_64, 1, 8)
ASHORE_PANEL(native_panel_32, 1, 4)
ASHORE_PANEL(native_panel_16, 1, 2)
ASHORE_PANEL(native_rows_16, 4, 2)
#define native_panel_128 native_panel_64
#define native_rows_64 native_rows_16
#define native_rows_32 native_rows_16
#define ASHORE_STRIP 64
#define ASHORE_ROWS_STRIP 16
#elif ASHORE_LANES == 1
ASHORE_PANEL(native_panel_16, 1, 16)
#define native_panel_128 native_panel_16
#define native_panel_64 native_panel_16
#define native_panel_32 native_panel_16
#define native_rows_64 native_panel_16
#define native_rows_32 native_panel_16
#define native_rows_16 native_panel_16
#define ASHORE_STRIP 16
#define ASHORE_ROWS_STRIP 16
#else
ASHORE_PANEL(native_panel_32, 1, 32 / ASHORE_LANES)
ASHORE_PANEL(native_panel_16, 1, 16 / ASHORE_LANES)
ASHORE_PANEL(native_rows_16, 2, 16 / ASHORE_LANES)
#define native_panel_128 native_panel_32
#define native_panel_64 native_panel_32
#define native_rows_64 native_rows_16
#define native_rows_32 native_rows_16
#define ASHORE_STRIP 32
#define ASHORE_ROWS_STRIP 16
#endif
#define ASHORE_ROWS (ASHORE_LANES >= 8 ? 4 : ASHORE_LANES == 4 ? 2 : 1)

/* y = start + x w, for rows of x; start is a row of biases (start_row 0), or what y holds. */
static void native_dense(const float *ASHORE_RESTRICT w, const float *ASHORE_RESTRICT x, size_t x_row, size_t rows,
                         size_t depth, size_t columns, const float *start, size_t start_row, float *y, size_t y_row)
{
    size_t column, r, d, s, width;
    for (column = 0; column < columns; column += width, w += width * depth) {
        const size_t left = columns - column;
        width = left > 96 ? 128 : left > 48 ? 64 : left > 24 ? 32 : 16;
        for (r = 0; r < rows;) {
            const int several = rows - r >= ASHORE_ROWS;
            const size_t most = several ? ASHORE_ROWS_STRIP : ASHORE_STRIP, strip = width < most ? width : most;
            for (s = 0; s < width && column + s < columns; s += strip) {
                const size_t inside = left - s < strip ? left - s : strip;
                float *const to = y + r * y_row + column + s;
                const float *from = start + r * start_row + column + s;
                size_t from_row = start_row;
                for (d = 0; d < depth; d += ASHORE_BLOCK) {
                    const size_t block = depth - d < ASHORE_BLOCK ? depth - d : ASHORE_BLOCK;
                    (several ? (strip == 64 ? native_rows_64 : strip == 32 ? native_rows_32 : native_rows_16)
                             : (strip == 128  ? native_panel_128
                                : strip == 64 ? native_panel_64
                                : strip == 32 ? native_panel_32
                                              : native_panel_16))(w + d * width + s, width, x + r * x_row + d, x_row,
                                                                  block, from, from_row, to, y_row, inside);
                    from = to;
                    from_row = y_row;
                }
            }
            r += several ? ASHORE_ROWS : 1;
        }
    }
}

/*@ native_sum : vector */
static float native_sum(const float *x, int n)
{
    native_vec sums = {0};
    float total = 0.0f, parts[ASHORE_LANES];
    int i = 0;
    for (; i + ASHORE_LANES <= n; i += ASHORE_LANES)
        sums += ASHORE_LOAD(x + i);
    ASHORE_STORE(parts) = sums;
    for (; i < n; ++i)
        total += x[i];
    for (i = 0; i < ASHORE_LANES; ++i)
        total += parts[i];
    return total;
}

/*@ native_squares : vector */
/* The sum of the squared distances to the mean. */
static float native_squares(const float *x, float mean, int n)
{
    native_vec sums = {0};
    float total = 0.0f, parts[ASHORE_LANES];
    int i = 0;
    for (; i + ASHORE_LANES <= n; i += ASHORE_LANES) {
        const native_vec part = ASHORE_LOAD(x + i) - mean;
        sums += part * part;
    }
    ASHORE_STORE(parts) = sums;
    for (; i < n; ++i)
        total += (x[i] - mean) * (x[i] - mean);
    for (i = 0; i < ASHORE_LANES; ++i)
        total += parts[i];
    return total;
}

/*@ native_dot : vector */
static float native_dot(const float *x, const float *y, int n)
{
    native_vec sums = {0};
    float total = 0.0f, parts[ASHORE_LANES];
    int i = 0;
    for (; i + ASHORE_LANES <= n; i += ASHORE_LANES)
        sums += ASHORE_LOAD(x + i) * ASHORE_LOAD(y + i);
    ASHORE_STORE(parts) = sums;
    for (; i < n; ++i)
        total += x[i] * y[i];
    for (i = 0; i < ASHORE_LANES; ++i)
        total += parts[i];
    return total;
}

/*@ native_dots : native_dot */
/* y[m, n] = a[m, k] b[n, k]: rows of both lie in one piece. */
static void native_dots(const float *a, int a_row, int m, int k, int n, const float *b, int b_row, float *y, int y_row)
{
    int i, j;
    for (i = 0; i < m; ++i)
        for (j = 0; j < n; ++j)
            y[i * y_row + j] = native_dot(a + i * a_row, b + j * b_row, k);
}

/*@ native_products */
/* y[m, n] = a[m, k] b[k, n]: rows of b lie in one piece. */
static void native_products(const float *ASHORE_RESTRICT a, int a_row, int a_column, int m, int k, int n,
                            const float *ASHORE_RESTRICT b, int b_row, float *ASHORE_RESTRICT y, int y_row)
{
    int i, j, d;
    for (i = 0; i < m; ++i) {
        float *const row = y + i * y_row;
        for (j = 0; j < n; ++j)
            row[j] = 0.0f;
        for (d = 0; d < k; ++d) {
            const float factor = a[i * a_row + d * a_column];
            for (j = 0; j < n; ++j)
                row[j] += factor * b[d * b_row + j];
        }
    }
}

/*@ native_lstm_cells : native_sigmoid native_tanh */
/* Gates in the order input, output, forget, cell. */
static void native_lstm_cells(const float *ASHORE_RESTRICT g, float *ASHORE_RESTRICT c, float *ASHORE_RESTRICT h, int n)
{
    int i;
    for (i = 0; i < n; ++i) {
        const float cell = native_sigmoid(g[2 * n + i]) * c[i] + native_sigmoid(g[i]) * native_tanh(g[3 * n + i]);
        c[i] = cell;
        h[i] = native_sigmoid(g[n + i]) * native_tanh(cell);
    }
}

/*@ native_gru_cells : native_sigmoid native_tanh */
/* Gates in the order update, reset, hidden; k is what the state gives to each. */
static void native_gru_cells(const float *ASHORE_RESTRICT g, const float *ASHORE_RESTRICT k, float *ASHORE_RESTRICT h,
                             int n)
{
    int i;
    for (i = 0; i < n; ++i) {
        const float update = native_sigmoid(g[i] + k[i]), reset = native_sigmoid(g[n + i] + k[n + i]);
        const float hidden = native_tanh(g[2 * n + i] + reset * k[2 * n + i]);
        h[i] = (1.0f - update) * hidden + update * h[i];
    }
}

/*@ native_gru_reset : native_sigmoid */
/* The state as far as the reset gate lets it through. */
static void native_gru_reset(const float *ASHORE_RESTRICT g, const float *ASHORE_RESTRICT h, float *ASHORE_RESTRICT k,
                             int n)
{
    int i;
    for (i = 0; i < n; ++i)
        k[i] = native_sigmoid(g[n + i]) * h[i];
}

/*@ native_gru_reset_cells : native_sigmoid native_tanh */
static void native_gru_reset_cells(const float *ASHORE_RESTRICT g, float *ASHORE_RESTRICT h, int n)
{
    int i;
    for (i = 0; i < n; ++i) {
        const float update = native_sigmoid(g[i]);
        h[i] = (1.0f - update) * native_tanh(g[2 * n + i]) + update * h[i];
    }
}

/*@ native_tanh_cells : native_tanh */
static void native_tanh_cells(const float *ASHORE_RESTRICT g, float *ASHORE_RESTRICT h, int n)
{
    int i;
    for (i = 0; i < n; ++i)
        h[i] = native_tanh(g[i]);
}

/*@ native_relu_cells */
static void native_relu_cells(const float *ASHORE_RESTRICT g, float *ASHORE_RESTRICT h, int n)
{
    int i;
    for (i = 0; i < n; ++i)
        h[i] = g[i] < 0.0f ? 0.0f : g[i];
}

/*@ native_index */
/* A place in a table of so many; counted from the end where it is negative. */
static inline size_t native_index(int64_t place, int64_t size, int *outside)
{
    place = place < 0 ? place + size : place;
    if (place >= 0 && place < size)
        return (size_t)place;
    *outside = 1;
    return 0;
}

/*@ native_whole64 */
/* A float as a whole number; one that has no place there is the lowest, as it is on x86. */
static inline int64_t native_whole64(double x)
{
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}

/*@ native_whole32 */
static inline int32_t native_whole32(double x)
{
    return x > -2147483649.0 && x < 2147483648.0 ? (int32_t)x : INT32_MIN;
}

/*@ native_conv */
/* sizes: in, out, kernel, strides, dilations and padding, three of each. */
static void native_conv(const float *ASHORE_RESTRICT x, const float *ASHORE_RESTRICT w, const float *b,
                        float *ASHORE_RESTRICT y, int rows, int groups, int inputs, int outputs, const int *sizes)
{
    const int *const in = sizes, *const out = sizes + 3, *const size = sizes + 6;
    const int *const stride = sizes + 9, *const dilation = sizes + 12, *const pad = sizes + 15;
    const size_t plane = (size_t)in[0] * (size_t)in[1] * (size_t)in[2];
    const size_t result = (size_t)out[0] * (size_t)out[1] * (size_t)out[2];
    int n, o, c, a[3], d, e, i;
    for (n = 0; n < rows * groups; ++n)
        for (o = 0; o < outputs; ++o) {
            const int channel = n % groups * outputs + o;
            float *const to = y + ((size_t)n * (size_t)outputs + (size_t)o) * result;
            size_t k;
            for (k = 0; k < result; ++k)
                to[k] = b ? b[channel] : 0.0f;
            for (c = 0; c < inputs; ++c)
                for (a[0] = 0; a[0] < size[0]; ++a[0])
                    for (a[1] = 0; a[1] < size[1]; ++a[1])
                        for (a[2] = 0; a[2] < size[2]; ++a[2]) {
                            const float factor =
                                w[((((size_t)channel * (size_t)inputs + (size_t)c) * (size_t)size[0] + (size_t)a[0]) *
                                       (size_t)size[1] + (size_t)a[1]) * (size_t)size[2] + (size_t)a[2]];
                            const int shift = a[2] * dilation[2] - pad[2], step = stride[2];
                            const int first = shift < 0 ? (step - 1 - shift) / step : 0;
                            const int most = in[2] - shift <= 0 ? 0 : (in[2] - shift - 1) / step + 1;
                            const int last = most < out[2] ? most : out[2];
                            for (d = 0; d < out[0]; ++d)
                                for (e = 0; e < out[1]; ++e) {
                                    const int p = d * stride[0] + a[0] * dilation[0] - pad[0];
                                    const int q = e * stride[1] + a[1] * dilation[1] - pad[1];
                                    const float *from;
                                    float *row;
                                    if (p < 0 || p >= in[0] || q < 0 || q >= in[1] || first >= last)
                                        continue;
                                    from = x + ((size_t)n * (size_t)inputs + (size_t)c) * plane +
                                           ((size_t)p * (size_t)in[1] + (size_t)q) * (size_t)in[2];
                                    row = to + ((size_t)d * (size_t)out[1] + (size_t)e) * (size_t)out[2];
                                    if (step == 1)
                                        for (i = first; i < last; ++i)
                                            row[i] += factor * from[i + shift];
                                    else
                                        for (i = first; i < last; ++i)
                                            row[i] += factor * from[i * step + shift];
                                }
                        }
        }
}

/*@ native_conv_transpose */
/* sizes: in, out, kernel, strides, dilations and padding, three of each. */
static void native_conv_transpose(const float *ASHORE_RESTRICT x, const float *ASHORE_RESTRICT w, const float *b,
                                  float *ASHORE_RESTRICT y, int rows, int groups, int inputs, int outputs,
                                  const int *sizes)
{
    const int *const in = sizes, *const out = sizes + 3, *const size = sizes + 6;
    const int *const stride = sizes + 9, *const dilation = sizes + 12, *const pad = sizes + 15;
    const size_t plane = (size_t)in[0] * (size_t)in[1] * (size_t)in[2];
    const size_t result = (size_t)out[0] * (size_t)out[1] * (size_t)out[2];
    const size_t window = (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
    int n, o, c, a[3], at[3], to[3], axis;
    for (n = 0; n < rows * groups; ++n)
        for (o = 0; o < outputs; ++o) {
            float *const y_plane = y + ((size_t)n * (size_t)outputs + (size_t)o) * result;
            size_t k;
            for (k = 0; k < result; ++k)
                y_plane[k] = b ? b[n % groups * outputs + o] : 0.0f;
            for (c = 0; c < inputs; ++c) {
                const float *const x_plane = x + ((size_t)n * (size_t)inputs + (size_t)c) * plane;
                const float *const w_plane =
                    w + (((size_t)(n % groups) * (size_t)inputs + (size_t)c) * (size_t)outputs + (size_t)o) * window;
                for (at[0] = 0; at[0] < in[0]; ++at[0])
                    for (at[1] = 0; at[1] < in[1]; ++at[1])
                        for (at[2] = 0; at[2] < in[2]; ++at[2])
                            for (a[0] = 0; a[0] < size[0]; ++a[0])
                                for (a[1] = 0; a[1] < size[1]; ++a[1])
                                    for (a[2] = 0; a[2] < size[2]; ++a[2]) {
                                        int inside = 1;
                                        for (axis = 0; axis < 3; ++axis) {
                                            to[axis] = at[axis] * stride[axis] + a[axis] * dilation[axis] - pad[axis];
                                            inside = inside && to[axis] >= 0 && to[axis] < out[axis];
                                        }
                                        if (inside)
                                            y_plane[(to[0] * out[1] + to[1]) * out[2] + to[2]] +=
                                                x_plane[(at[0] * in[1] + at[1]) * in[2] + at[2]] *
                                                w_plane[(a[0] * size[1] + a[1]) * size[2] + a[2]];
                                    }
            }
        }
}

/*@ native_pool */
/* sizes: in, out, kernel, strides, dilations, padding before and after, three of each. mode 0: the largest; 1: the mean
 * of what is inside; 2: the mean, with the padding. */
static void native_pool(const float *ASHORE_RESTRICT x, float *ASHORE_RESTRICT y, int planes, int mode, const int *sizes)
{
    const int *const in = sizes, *const out = sizes + 3, *const size = sizes + 6;
    const int *const stride = sizes + 9, *const dilation = sizes + 12, *const pad = sizes + 15, *const after = sizes + 18;
    int n, o[3], a[3], at[3], axis;
    for (n = 0; n < planes; ++n)
        for (o[0] = 0; o[0] < out[0]; ++o[0])
            for (o[1] = 0; o[1] < out[1]; ++o[1])
                for (o[2] = 0; o[2] < out[2]; ++o[2]) {
                    float most = -INFINITY, total = 0.0f;
                    int count = 0;
                    for (a[0] = 0; a[0] < size[0]; ++a[0])
                        for (a[1] = 0; a[1] < size[1]; ++a[1])
                            for (a[2] = 0; a[2] < size[2]; ++a[2]) {
                                int inside = 1, padded = 1;
                                for (axis = 0; axis < 3; ++axis) {
                                    at[axis] = o[axis] * stride[axis] + a[axis] * dilation[axis] - pad[axis];
                                    inside = inside && at[axis] >= 0 && at[axis] < in[axis];
                                    padded = padded && at[axis] < in[axis] + after[axis];
                                }
                                if (inside) {
                                    const float e = x[(at[0] * in[1] + at[1]) * in[2] + at[2]];
                                    most = e > most || e != e ? e : most;
                                    total += e;
                                }
                                count += mode == 2 ? padded : inside;
                            }
                    *y++ = mode == 0 ? most : total / (float)count;
                    if (o[0] == out[0] - 1 && o[1] == out[1] - 1 && o[2] == out[2] - 1)
                        x += in[0] * in[1] * in[2];
                }
}
