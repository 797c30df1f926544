r"""Error theory: how large the error of a behaviour will be, and which behaviour has the smallest.

**The error.**  Certainty equivalence solves the model estimated from counts; it is asymptotically efficient.
With $n(s,a)$ visits, $F_i=(I-\gamma P_{\pi_i})^{-1}$ and the noise of one transition
$\sigma_i^2(s,a)=\mathrm{Var}(c_i+\gamma V_i(s')\mid s,a)$ (`exact.transition_noise`), the delta method gives

$$\mathrm{Var}\,\hat V_i(s_0) \approx \sum_{s,a} F_i(s_0,s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a) / n(s,a). \quad (D1)$$

**The importance** of a pair sums its contributions to the weighted mean squared error over the evaluation states $d$:

$$G(s,a) = \sum_i w_i \sum_{s_0} d(s_0) F_i(s_0,s)^2\,\pi_i(a|s)^2\,\sigma_i^2(s,a),
\qquad \mathrm{MSE}\approx\sum_{s,a} G/n. \quad (D2)$$

**The design.**  A behaviour with expected visits per step $x$ has $\mathrm{MSE}\cdot T\to\sum G/x$, its *constant*.  With $n$
visits made and $m$ steps to come, the best behaviour minimises

$$\sum_{s,a} \frac{G(s,a)}{n(s,a) + m\,x(s,a)} \quad (D3)$$

over all $x$ that are possible in the world, a convex problem (`optimum` has the dual that solves it and the certificate).

Shapes: state-action tables [state, action], values [gvf, state].  `docs/limit.md` has the numbers for the paper's settings.
"""

from gvfx.questions.gvf import calibrated_weights
from gvfx.theory.flow import Model, occupancy
from gvfx.theory.forecast import Forecast, constant, constants, error_draws, forecast, steps_needed
from gvfx.theory.importance import evaluation, importance, importance_of, importances, variances
from gvfx.theory.optimum import Design, best_design, optimal, remaining_design
from gvfx.theory.rivals import characteristic_time, characteristic_time_of, second_moment, second_moment_of

__all__ = [
    "Design",
    "Forecast",
    "Model",
    "best_design",
    "calibrated_weights",
    "characteristic_time",
    "characteristic_time_of",
    "constant",
    "constants",
    "error_draws",
    "evaluation",
    "forecast",
    "importance",
    "importance_of",
    "importances",
    "occupancy",
    "optimal",
    "remaining_design",
    "second_moment",
    "second_moment_of",
    "steps_needed",
    "variances",
]
