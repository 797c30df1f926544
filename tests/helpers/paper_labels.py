"""The labels of the paper's figures and tables, the items that make them, and the files that show them."""

from __future__ import annotations

# From the paper's source: every \label{fig:...} and \label{tab:...}, with the panels that have no label of their own as letters.
# Each with the item that makes it and the files that show it. None is exempt: the two that are no results (fig:cumulants,
# fig:cum_value_scaled_Exp) are drawn too.
PAPER = [
    ("fig:grid_simple", "", "same", "same.png"),
    ("fig:fr_drifter", "", "fourrooms", "fourrooms.png"),
    ("fig:fr_drifter", "", "fourrooms-visit", "fourrooms-visit.png"),
    ("fig:scaled_gvf", "", "forty", "forty.png"),
    ("fig:both_distinct_grid", "", "distinct", "distinct.png"),
    ("fig:val_error_base", "", "value-error", "value-error.png"),
    ("fig:val_error_ours", "", "value-error", "value-error.png"),
    ("fig:avgmse_sub1", "", "continuous", "continuous-replay.png continuous-per.png"),
    ("fig:val_error_cont_base", "", "value-error-continuous", "value-error-continuous-mean.png"),
    ("fig:val_error_cont_ours", "", "value-error-continuous", "value-error-continuous-mean.png"),
    ("fig:mujoco_env", "a", "mujoco-paper", "mujoco-paper-walker.png"),
    ("fig:mujoco_env", "b", "mujoco-paper", "mujoco-paper-cheetah.png"),
    ("fig:mujoco_env", "a b", "mujoco-recommended", "mujoco-recommended-walker.png mujoco-recommended-cheetah.png"),
    ("fig:cumulants", "", "cumulants", "cumulants.png"),
    ("tab:summary_tabular_perf", "", "table1", "table1.md"),
    ("tab:hyperparameters", "", "table2", "table2.md"),
    ("tab:hyperparameters", "non-linear", "tuning-continuous", "tuning-continuous.md"),
    ("fig:lr_sens_mp_sg", "a b", "sensitivity", "sensitivity.png sensitivity.md"),
    ("fig:PuddleContTrajUS", "", "sensitivity", "sensitivity.png"),  # panel c of fig:lr_sens_mp_sg, BPS
    ("fig:PuddleContTrajS", "", "sensitivity", "sensitivity.png"),  # panel d, GVFExplorer
    ("fig:single_goal_grid_stochastic_ind_mse", "", "individual-same", "individual-same-1.png individual-same-2.png"),
    ("fig:multi_goal_grid_stochastic_app", "a", "individual-distinct", "individual-distinct-1.png individual-distinct-2.png"),
    ("fig:multi_goal_grid_stochastic_app", "b c", "variance", "variance.png"),
    ("fig:semi_greedy_multi_goals", "a", "semi-greedy", "semi-greedy.png semi-greedy.md"),
    (
        "fig:semi_greedy_multi_goals",
        "b",
        "individual-semi-greedy",
        "individual-semi-greedy-1.png individual-semi-greedy-2.png",
    ),
    ("fig:crude_approx", "", "grouping", "grouping-1.png grouping-2.png grouping-4.png grouping.md"),
    ("fig:early_m_fr", "", "fourrooms-variance", "fourrooms-variance.png"),
    ("fig:later_m_fr", "", "fourrooms-variance", "fourrooms-variance.png"),
    ("fig:drifter_sigma_graph", "", "drift", "drift.png drift.md"),
    ("fig:cum_value_scaled_Exp", "", "forty-goals", "forty-goals.png"),
    ("fig:FR_rho_exp_sarsa", "", "importance-sampling", "importance-sampling.png importance-sampling.md"),
    ("tab:mse_in_cont_env", "", "table3", "table3.md"),
    ("tab:mse_in_cont_env", "authors", "table3-authors", "table3-authors.md"),
    (
        "fig:mse1_sub1",
        "",
        "individual-continuous",
        "individual-continuous-left-replay.png individual-continuous-left-per.png",
    ),
    (
        "fig:mse2_sub1",
        "",
        "individual-continuous",
        "individual-continuous-right-replay.png individual-continuous-right-per.png",
    ),
    ("fig:cont_value_error", "a b c d e f", "value-error-continuous", "value-error-continuous.png value-error-continuous.md"),
    ("fig:cont_env_variance", "a b c", "variance-continuous", "variance-continuous.png"),
    ("fig:traj_2d_world", "a b c d", "behaviour-continuous", "trajectories-continuous.png behaviour-continuous.png"),
]
WHOLE = {  # figures whose panels have labels; the items name the figure or its panels
    "fig:multi_envs": ("fig:grid_simple", "fig:fr_drifter", "fig:scaled_gvf"),
    "fig:multi_goal_grid_stochastic": ("fig:both_distinct_grid", "fig:val_error_base", "fig:val_error_ours"),
    "fig:mse_2d_world": ("fig:avgmse_sub1", "fig:val_error_cont_base", "fig:val_error_cont_ours"),
    "fig:lr_sens_mp_sg": ("fig:PuddleContTrajUS", "fig:PuddleContTrajS"),
    "fig:fr_env_variance": ("fig:early_m_fr", "fig:later_m_fr", "fig:drifter_sigma_graph"),
    "fig:mse_2d_world_individual": ("fig:mse1_sub1", "fig:mse2_sub1"),
}
