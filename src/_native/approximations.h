/* Polynomials of the transcendental functions; each lanes_*.h supplies the arithmetic. */
#ifndef RUNOFF_APPROXIMATIONS_H
#define RUNOFF_APPROXIMATIONS_H

/* 2^f on [0, 1): minimax of degree 4, relative error 2.6e-6 */
#define EXP2_POLYNOMIAL(f) \
    vf_fma(vf_fma(vf_fma(vf_fma(vf_set(0.013534166850149632f), f, vf_set(0.05201146379113197f)), f, \
                         vf_set(0.2414427548646927f)), f, vf_set(0.6930038332939148f)), f, vf_set(1.0000026226043701f))

/* log2 of P(X <= b) for a normal X and b <= 0: minimax of degree 5, error weighted by |b| P(X <= b): 4.4e-7 */
#define LOG2_TAIL(b) \
    vf_fma(vf_fma(vf_fma(vf_fma(vf_fma(vf_set(0.00047329529537f), b, vf_set(0.00708446977660f)), b, \
                                vf_set(0.05182718858123f)), b, vf_set(-0.45999261736870f)), b, \
                  vf_set(1.15078783035278f)), b, vf_set(-1.00003767013550f))
#endif
