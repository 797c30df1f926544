/* GVFExplorer with Expected Sarsa on a tabular world, written by hand: the yardstick of `python -m benchmarks tabular`.
 * The step is the compiled loop's: same random generator, alias tables, update order and behaviour rule.
 * Sizes are compile-time constants (-DGVFS=2 -DACTIONS=4 -DSUCCESSORS=5). */
#include <math.h>
#include <stdint.h>

static inline double uniform(uint64_t *r) {
    uint64_t x = r[0], y = r[1], out = x + y;
    y ^= x;
    r[0] = ((x << 24) | (x >> 40)) ^ y ^ (y << 16);
    r[1] = (y << 37) | (y >> 27);
    return (double)(out >> 11) * 0x1.0p-53;
}

static double normal(uint64_t *r) {
    double radius = sqrt(-2.0 * log(1.0 - uniform(r)));
    return radius * cos(2.0 * M_PI * uniform(r));
}

static inline double rate(double minimum, int64_t t) {
    double v = 1.0 + (minimum - 1.0) / 500000.0 * (double)t;
    return v > minimum ? v : minimum;
}

typedef struct {
    const int32_t *next, *other, *pays;
    const double *threshold;
    const int64_t *starts;
    const double *start_threshold;
    const int32_t *start_other;
    int64_t n_starts;
    const uint8_t *terminal;
    int64_t horizon;
    const double *pi, *gamma, *mean, *sd, *weights;
    double min_q, min_m, epsilon_steps, floor;
} World;

void run(const World *w, double *q, double *m, int64_t *visits, uint64_t *rng, int64_t *at, int64_t steps) {
    uint64_t env[2] = {rng[0], rng[1]}, beh[2] = {rng[2], rng[3]}, cum[2] = {rng[4], rng[5]};
    int64_t t = at[0], s = at[1], age = at[2], episodes = at[3];
    double pi[ACTIONS][GVFS], gamma[GVFS];
    for (int a = 0; a < ACTIONS; a++)
        for (int i = 0; i < GVFS; i++) pi[a][i] = w->pi[a * GVFS + i];
    for (int i = 0; i < GVFS; i++) gamma[i] = w->gamma[i];
    for (int64_t n = 0; n < steps; n++) {
        if (age == 0) {
            double u = uniform(env) * (double)w->n_starts;
            int64_t j = (int64_t)u;
            s = w->starts[u - (double)j < w->start_threshold[j] ? j : w->start_other[j]];
        }
        double mu[ACTIONS], total = 0.0;
        for (int a = 0; a < ACTIONS; a++) {
            double score = 0.0;
            const double *row = m + (s * ACTIONS + a) * GVFS;
            for (int i = 0; i < GVFS; i++) score += w->weights[i] * pi[a][i] * pi[a][i] * row[i];
            mu[a] = sqrt(score);
            total += mu[a];
        }
        if (total > 0.0) {
            double scale = 1.0 / total;
            for (int a = 0; a < ACTIONS; a++) mu[a] *= scale;
        } else
            for (int a = 0; a < ACTIONS; a++) mu[a] = 1.0 / ACTIONS;
        double epsilon = 1.0 - (double)t / w->epsilon_steps;
        epsilon = epsilon > 0.0 ? epsilon : 0.0;
        double excess = 0.0;
        for (int a = 0; a < ACTIONS; a++) {
            mu[a] = (1.0 - epsilon) * mu[a] + epsilon / ACTIONS;
            mu[a] = mu[a] > w->floor ? mu[a] - w->floor : 0.0;
            excess += mu[a];
        }
        double scale = (1.0 - ACTIONS * w->floor) / excess;
        for (int a = 0; a < ACTIONS; a++) mu[a] = w->floor + scale * mu[a];
        double u = uniform(beh), cumulative = 0.0;
        int64_t action = 0;
        for (int a = 0; a < ACTIONS - 1; a++) {
            cumulative += mu[a];
            action += u >= cumulative;
        }
        int64_t pair = s * ACTIONS + action;
        double v = uniform(env) * SUCCESSORS;
        int64_t j = (int64_t)v;
        int64_t k = v - (double)j < w->threshold[pair * SUCCESSORS + j] ? j : w->other[pair * SUCCESSORS + j];
        int64_t s_next = w->next[pair * SUCCESSORS + k];
        int32_t paying = w->pays[pair * SUCCESSORS + k];
        double c[GVFS] = {0.0};
        if (paying >= 0)
            for (int i = 0; i < GVFS; i++) {
                c[i] = w->mean[paying * GVFS + i];
                if (w->sd[paying * GVFS + i] > 0.0) c[i] += w->sd[paying * GVFS + i] * normal(cum);
            }
        int ended = w->terminal[s_next];
        double alive = ended ? 0.0 : 1.0, rate_q = rate(w->min_q, t), rate_m = rate(w->min_m, t);
        visits[pair]++;
        age++;
        double *q_here = q + pair * GVFS, *m_here = m + pair * GVFS;
        const double *q_next = q + s_next * ACTIONS * GVFS, *m_next = m + s_next * ACTIONS * GVFS;
        double q_new[GVFS], m_new[GVFS];
        for (int i = 0; i < GVFS; i++) {
            double value = 0.0, variance = 0.0, discount = alive * gamma[i];
            for (int a = 0; a < ACTIONS; a++) {
                value += pi[a][i] * q_next[a * GVFS + i];
                variance += pi[a][i] * m_next[a * GVFS + i];
            }
            double delta = c[i] + discount * value - q_here[i];
            m_new[i] = m_here[i] + rate_m * (delta * delta + discount * discount * variance - m_here[i]);
            q_new[i] = q_here[i] + rate_q * delta;
        }
        for (int i = 0; i < GVFS; i++) {
            q_here[i] = q_new[i];
            m_here[i] = m_new[i];
        }
        t++;
        s = s_next;
        if (ended || age >= w->horizon) {
            age = 0;
            episodes++;
        }
    }
    rng[0] = env[0], rng[1] = env[1], rng[2] = beh[0], rng[3] = beh[1], rng[4] = cum[0], rng[5] = cum[1];
    at[0] = t, at[1] = s, at[2] = age, at[3] = episodes;
}
