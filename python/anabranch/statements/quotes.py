r"""The printed words of each statement, by paper and place.

Formulas are LaTeX as in the sources' text, "..." stands for words left out.
`benches/theory/quotes.py` compares them with the text of a paper.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.statements.statement import CONDITION, HOLDS, MEASURED, WORDS, WRONG, Statement

QUOTED = (HOLDS, WRONG, CONDITION, MEASURED, WORDS)
"""Classes of what a paper prints."""

BALIA: Mapping[str, str] = {
    "I, (1) and (2); IV-B": "The algorithm given at the end of Section I corresponds to the choice "
    r"$(\beta, n, \eta) = (0.2, 0.5, \infty)$. Theorem 4.1 guarantees that the algorithm satisfies "
    "C1–C3 when each source has no more than 8 paths and their round-trip times are equal.",
    "II-B, one path": "all of which degenerate to TCP NewReno if there is only one route per "
    "source.",
    "II-B, Max": r"where we have ignored taking the minimum with the $1/w_r$ term since the "
    r"performance is mainly captured by $\frac{\max\{w_k/\tau_k^2\}}{(\sum w_k/\tau_k)^2}$.",
    "IV-B, the increase": "The algorithm given at the end of Section I corresponds to the choice "
    r"$(\beta, n, \eta) = (0.2, 0.5, \infty)$.",
    "III, table I": "C0 C1 C2, C3 C4 C5 EWTCP Yes Yes Yes Yes Yes Coupled Yes Yes No Yes Yes "
    "Semicoupled No Yes Yes Yes Yes Max No Yes Yes Yes Yes Generalized No Yes Yes Yes Yes",
    "III, the gain": r"First an equilibrium (\mathbf{x}, \mathbf{p}) does not depend on K_s , but "
    r"only on Φ_s .",
    "III-A": "Condition C4 is natural and satisfied by all the algorithms considered in this "
    r"paper. ... The existence of D_s in C4 is ensured by C2.",
    "III-B, theorem 3.1": "There exists a twice continuously differentiable and concave "
    r"$U_s(\mathbf{x}_s)$ such that an equilibrium (\mathbf{x}, \mathbf{p}) of (3)–(4) solves (9) "
    "and its dual problem if and only if condition C0 holds.",
    "III-C, theorem 3.2": "Suppose C1 holds. Then (3)–(4) has at least one equilibrium. ... "
    "Suppose C2 and C3 hold. Then (3)–(4) has at most one equilibrium",
    "III-C, theorem 3.3": r"Suppose C1–C3 hold and $k_r(\mathbf{x}_s) \equiv k_r(x_r)$ for all "
    r"$r \in R$. Then the unique equilibrium $(\mathbf{x}^*, \mathbf{p}^*)$ is globally "
    "asymptotically stable.",
    "I and III-B, Coupled": "the Coupled algorithm, can be unstable and can have multiple "
    "equilibria as shown in [7]. ... EWTCP has a unique stable equilibrium while Coupled algorithm "
    "may have multiple equilibria since its corresponding utility function is not strictly "
    "concave.",
    "III-C, local stability": r"When $k_r(x_r)$ depends on \mathbf{x}_s , one can replace "
    r"$k_r(x_r)$ in the definition of the Lyapunov function V in (21) with $k_r(\mathbf{x}_s^*)$ "
    r"evaluated at the equilibrium and the same argument there proves that $(\mathbf{x}^*, "
    r"\mathbf{p}^*)$ is (locally) asymptotically stable.",
    "III-D, theorem 3.4": "Suppose both satisfy C1–C4. Then \\hat{M} is friendlier than \\tilde{M} "
    r"if $\hat{\Phi}_s(\mathbf{x}_s) \leq \tilde{\Phi}_s(\mathbf{x}_s)$ for all $s \in S$.",
    "III-E, theorem 3.5": r"Moreover $\text{Re}(\lambda) \leq \bar{\lambda}(J^*)$ ... For two "
    r"MP-TCP algorithms $(\hat{K}, \hat{\Phi})$ and $(\tilde{K}, \tilde{\Phi})$, "
    r"$\bar{\lambda}(\hat{J}^*) \leq \bar{\lambda}(\tilde{J}^*)$ provided ... we say that \hat{M} "
    r"is *more responsive than* \tilde{M} if $\bar{\lambda}(\hat{J}^*) \leq "
    r"\bar{\lambda}(\tilde{J}^*)$.",
    "III-E and table II": r"Theorem 3.5(2) implies that an MP-TCP algorithm with a larger "
    r"$K_s(\mathbf{x}_s^*)$ or more negative definite ... is more responsive, in the sense that "
    "the real parts of the eigenvalues of the Jacobian J^* have a smaller more negative upper "
    "bound.",
    "III-E, theorem 3.6": r"Suppose both satisfy C1–C3 and C5. Then for all $s \in S$ "
    r"$$\frac{\partial \hat{\Phi}_s(\mathbf{x}_s)}{\partial \mathbf{x}_s} \preceq \frac{\partial "
    r"\tilde{\Phi}_s(\mathbf{x}_s)}{\partial \mathbf{x}_s} \Rightarrow \hat{\Phi}_s(\mathbf{x}_s) "
    r"\geq \tilde{\Phi}_s(\mathbf{x}_s)$$",
    "III-F, lemma 3.1": r"$$\mathbb{E} \left(\sum_k D_k(A_k) \middle| \sum_{i,j} a_{ij} \geq 1 "
    r"\right) = \frac{\sum_k d_k q_k |A_k|}{\sum_k q_k |A_k|} + o \left(\sum_k q_k \right)$$",
    "IV-A, first display": r"$$\phi_r^{ewtcp}(\mathbf{x}_s) \geq "
    r"\phi_r^{semicoupled}(\mathbf{x}_s) \geq \phi_r^{max}(\mathbf{x}_s) \geq "
    r"\phi_r^{coupled}(\mathbf{x}_s)$$ for all $\mathbf{x}_s \geq 0$ if all routes $r \in s$ have "
    "the same round trip time.",
    "IV-A, friendliness": "Theorem 3.4 implies that their friendliness will be in the same order, "
    "i.e., their throughputs in the test network of Fig. 1 are ordered as follows: "
    r"$$\text{EWTCP}(a \geq 1)^1 \geq \text{Semicoupled} \geq \text{Max} \geq \text{Coupled}$$",
    "IV-A, footnote 1": "When $a < 1$, the MP-TCP source can obtain even smaller throughput than "
    "the competing single-path TCP source.",
    "IV-A, theorem 4.1 for Max": "Theorem 4.1 below implies that, both Semicoupled and Max "
    "algorithms satisfy C1–C3 provided they enable no more than 8 routes.",
    "IV-A, third display": r"$$\left(\frac{\partial \Phi_s}{\partial \mathbf{x}_s} "
    r"\right)^{ewtcp} \preceq \left(\frac{\partial \Phi_s}{\partial \mathbf{x}_s} "
    r"\right)^{semicoupled} \preceq \left(\frac{\partial \Phi_s}{\partial \mathbf{x}_s} "
    r"\right)^{max} \preceq \left(\frac{\partial \Phi_s}{\partial \mathbf{x}_s} "
    r"\right)^{coupled}$$",
    "IV-A, responsiveness": "Theorem 3.5 then implies that their responsiveness should be in the "
    "same order, as confirmed by our simulations in section V.",
    "IV-A, window oscillation": r"According to (11), if $k_r(\mathbf{x}_s) \leq 0.5x_r "
    r"\|\mathbf{x}_s\|_1$, we have, to the first order",
    "IV-B, theorem 4.1": r"Fix any $\eta \geq 0$ and $n \in \mathbb{N}_+$. For any $s \in S$, the "
    r"$\phi_r(\mathbf{x}_s)$ in (12) satisfies - 1) C1 if $\beta \geq 0$. - 2) C2–C3 if $0 < \beta "
    r"\leq 1$, $|s| \leq 8$ and τ_r are the same for all $r \in s$ (assuming H has full row rank).",
    "IV-B, after theorem 4.1": "Theorem 4.1 holds if the RTTs of the subpaths do not differ much.",
    "IV-B, Phi": r"Hence our Φ_s is smaller than that of the Max and Semicoupled algorithms but "
    "bigger than that of the Coupled algorithm (for the same n).",
    "IV-B, small and large paths": "Note that responsiveness is mainly affected by subpaths with "
    "small throughput while window oscillation is mainly affected by subpaths with large "
    "throughput.",
    "appendix B, lemma B.1": r"Assume a function $F : \mathbb{R}^n \rightarrow \mathbb{R}^n$ is "
    r"continuously differentiable and $\left[\frac{\partial F}{\partial \mathbf{x}}(\mathbf{x}) "
    r"\right]^+$ is negative definite for all \mathbf{x} . Then for any $\mathbf{x}_1 \neq "
    r"\mathbf{x}_2 \in \mathbb{R}^n$, $$(\mathbf{x}_1 - \mathbf{x}_2)^T (F(\mathbf{x}_1) - "
    r"F(\mathbf{x}_2)) < 0.$$",
    "appendix B, lemma B.2": r"Suppose C3 holds. Then $x_r^* > 0$ at equilibrium for all "
    r"$r \in R$.",
    "appendix G, (28) to (32)": r"Moreover such a \tilde{C} is unique since $\psi(C)$ is strictly "
    r"decreasing. ... a solution $\mathbf{x}_s > 0$ to (28) is *uniquely* given by $$x_r = "
    r"\frac{a_r}{\sum_{k \in s} a_k} \sqrt{\tilde{C}}, \quad r \in s \quad (32)$$",
    "appendix G, the Jacobian": r"Then the Jacobian of Φ_s at \mathbf{x}_s is $$\frac{\partial "
    r"\Phi_s}{\partial \mathbf{x}_s} = -\frac{4(1-\beta)}{\tau^2 \|\mathbf{x}_s\|_1^3} "
    r"\mathbf{1}\mathbf{1}^T - 2\beta \frac{\|\mathbf{x}_s\|_n}{\tau^2 \|\mathbf{x}_s\|_1^2} "
    r"\Lambda_s^{-1} (I_{|s|} + \mathbf{1}\mathbf{a}_s^T) \Lambda_s^{-1}$$",
    "appendix G, lemma G.1": r"Then $\sum_{i=1}^m a_i = 1$ and $\sum_{i=1}^m a_i^2 \leq 1$.",
    "appendix G, lemma G.2": r"$$f(\mathbf{z}) := \sum_{i=1}^m z_i^2 + \sum_{i=1}^m z_i "
    r"\sum_{i=1}^m a_i z_i > 0$$ provided $m \leq 8$.",
}

ITCP: Mapping[str, str] = {
    "II, theorem 1": r"$$\mathcal{P}[\mathbf{S}_i > x] \sim \mathcal{P}[\mathbf{B}_i > (1 - "
    r"\rho)x], \quad x \rightarrow \infty, \quad (1)$$",
    "II, lemma 1": r"For $\phi_i > \rho_i$, the sojourn time distribution of customers who "
    "processor-share bandwidth of session i cannot be regularly-varying with different index than "
    "in the service time distribution.",
    "II, theorem 2": r"$$\mathcal{P}[\mathbf{V}_1 > x] \sim \frac{\phi_2 - \rho_2}{\phi_2} "
    r"\frac{\rho_2}{1 - \rho_1 - \rho_2} \mathcal{P}[\mathbf{W}_2^r > x/(\rho_1 - \phi_1)] \quad "
    "(2)$$",
    "II, theorem 3": r"If the service discipline in queue 1 is processor sharing, then $\forall "
    r"\delta > 0$, $\mathcal{P}[\mathbf{S}_1 > t] \geq l(t)$ where $l(t)$ is a regularly-varying "
    r"function with index $-\nu_2 + 1 - \delta$.",
    "III, figure 2": "Then the problem in two dimensions is, in fact, a line search problem shown "
    "in Figure 2.",
    "III-A, proposition 1": "(i) only one connection adjusts its value of κ at a time, (ii) "
    r"connections that have $\phi < \rho$ will always adjust their κ before connections that have "
    r"$\phi > \rho$, (iii) if $\rho_i < \phi_i < \rho_i + \epsilon$, then κ_i would not be "
    "decreased, and (iv) κ_i would never have to decrease to 1. ... all the connections can "
    r"achieve $\phi > \rho$ within finite time when $\sum_{i=1}^N \phi_i = 1$, $\sum_{i=1}^N "
    r"(\rho_i + \epsilon) < 1$.",
    "III-A, (12)": r"This linear system has $0.5[\sum_{i=1}^N \rho_i + \epsilon - 1, \epsilon - 1, "
    r"\dots, \epsilon - 1]$ as eigenvalues.",
    "III-A, after (12)": r"Therefore, the system is stable if $\epsilon < 1 - \sum_{i=1}^N "
    r"\rho_i$.",
    "III-B, epsilon": "On the other hand, a larger value of ϵ will speed up the convergence.",
    "appendix A, theorem 4": r"$$\mathcal{P}[\mathbf{W}^r > x] \sim \frac{c}{c - \rho} "
    r"\mathcal{P}[\mathbf{B}^r > x(c - \rho)]$$",
    "appendix A, theorem 5": "If L_t is the number of customers in the transient "
    r"processor-sharing queue at time t with $\rho > 1$, then $$\lim_{t \rightarrow +\infty} "
    r"\frac{L_t}{t} = \alpha, \quad a.s.$$",
    "appendix B, ||A|| - ||B||": r"since $\|\mathcal{A}^m\| - \|\mathcal{B}^m\| = "
    r"1 - \rho$ for any m",
    "appendix B, the least step": r"we can show that $\|\mathcal{B}^m\| - \|\mathcal{B}^{m'}\|$ in "
    r"Lemma 7 is bounded from below by $0.5\epsilon/(\sum_{i=1}^N M_i)^3 > 0$.",
    "appendix B, lemma 2": r"the new rate $\phi'_1 > \rho_1$ and $\phi'_2 < \rho_2 + \epsilon$ if "
    r"$0 < \epsilon < 1 - \rho_1 - \rho_2$.",
    "appendix B, lemma 3": r"If $\exists a > 0$ such that $(\kappa_2 + a)/(\kappa_1 + \kappa_2 + "
    r"a) > \rho_2$ and $\kappa_2 + a < M_2$. Then by using $\Delta\kappa'_2$ as in (10), the rate "
    r"assignment will converge to $\phi'_1 > \rho_1$ and $\phi'_2 > \rho_2$ in finite time if $0 < "
    r"\epsilon < 1 - \rho_1 - \rho_2$. ... it will take at most $\lceil 2a/\epsilon \rceil$ "
    r"updates",
    "appendix B, lemma 4": r"If $\phi_1^k = \kappa_1/(\kappa_1 + M_2) > \rho_1$, $\phi_2^k < "
    r"\rho_2$ and $\phi_1^{k+1} = ((1 - \gamma_1)\kappa_1)/((1 - \gamma_1)\kappa_1 + M_2) < "
    r"\rho_1$, then $\phi_2^j > \rho_2$, $\forall j > k$. Furthermore, the rate assignment will "
    r"converge to $\phi'_1 > \rho_1$ and $\phi'_2 > \rho_2$ in finite time if $0 < \epsilon < 1 - "
    r"\rho_1 - \rho_2$.",
    "appendix B, lemma 5": "For any initial conditions that satisfy the condition in Proposition "
    r"1, there exists a finite integer $m^* = \max\{l : \kappa_i^{j-1} \leq \kappa_i^j, 1 \leq i "
    r"\leq N, 1 \leq j \leq l\}$ and $\forall j \in \mathcal{B}^{m^*}, \kappa_j^{m^*} = M_j$.",
    "appendix B, lemma 6": r"For all $m < m^*$ in Lemma 5, either $\|\mathcal{B}^{m+1}\| < "
    r"\|\mathcal{B}^m\|$ or $\mathcal{A}^{m+1} = \mathcal{A}^m \cup \{i\}$ where i is the "
    r"connection that increases κ at the m^{th} update.",
    "appendix B, lemma 7": r"Suppose connection i decreases its κ_i at time m and $i \in "
    r"\mathcal{A}^m$, $\phi_i^m > \rho_i + \epsilon$ and $i \in \mathcal{B}^{m+1}$, then $\exists "
    r"m' > m$, such that $\mathcal{A}^m \subseteq \mathcal{A}^{m'}$ and $\|\mathcal{B}^m\| > "
    r"\|\mathcal{B}^{m'}\|$.",
}

OLIA: Mapping[str, str] = {
    "1, regular TCP": "It always provides a Pareto-optimal allocation of resources: it is "
    "impossible to increase the throughput of one user without decreasing the throughput of "
    "another or without increasing the congestion cost [5].",
    "1, RTTs of regular TCP": "It also guarantees a fair allocation of bandwidth among the users "
    "but favors the connections with lower RTTs [6].",
    "2, the family": r"These algorithms results in transmitting a traffic proportional to "
    r"$(1/p_r)^{1/\phi}$ a path that has a probability loss p_r",
    "2, every phi": "LIA is one of a family of multipath congestion control algorithms that can be "
    r"indexed by a parameter $0 < \phi < 2$ (see [13, slide 9]).",
    "2, its ends": "It correspond to the fully coupled algorithm of [7] and is flappy [9]. ... It "
    "is very responsive and non-flappy, but does not balance congestion in the network. ... It "
    "provides a compromise between congestion balancing and responsiveness.",
    "3, testbed": "For a 10 Mbps link, we set the packet loss probability equal to 0 up to a queue "
    "size of 25 Maximum Segment Size (MSS). Then it grows linearly to the value 0.1 at 50 MSS. It "
    "again increases linearly up to 1 for 100 MSS. The parameters are proportionally adapted when "
    "the link capacity changes.",
    "7, OLIA beside LIA": "Moreover, as shown in [12, Sections 4.3 and 6.2], OLIA keeps the same "
    "non-flappiness and responsiveness as LIA.",
}

RSF: Mapping[str, str] = {
    "1, max-min fairness": "Moreover, when the TCP sources react to the maximum of the prices in "
    "the network paths, the system instead achieves *max-min fairness*.",
    "2, (3) and (4)": r"where $g(y) = 0$ has a unique solution.",
    "2, (4), with (5)": r"where $g(y) = 0$ has a unique solution. ... where $V(\cdot)$ is a "
    "concave function.",
    "3, before (8)": r"Let $(\lambda^*, p^*)$ be the equilibrium of the aforementioned dynamical "
    r"system ... there exists a Lagrange multiplier $L_i(\lambda_{(-i)}^*)$ such that "
    r"$\lambda_i^*$ maximizes the Lagrangian",
    "abstract, diagonal strict concavity": "Furthermore, this utility function has diagonal strict "
    "concavity",
    "abstract, uniqueness": "which guarantees a globally unique (normalized) equilibrium.",
    "3, condition C0": r"A sufficient condition for the function $\rho(\cdot)$ to be diagonally "
    r"strictly concave is that the matrix $[G'(\lambda, z) + G(\lambda, z)]$ is negative definite "
    r"for $z \in S$",
    "3, condition C1": r"A sufficient condition for the existence of a unique global equilibrium "
    r"is that $\rho(\cdot)$ is diagonally strictly concave for some $z$ (i.e., $C_0$ holds).",
}

WVEGAS: Mapping[str, str] = {
    "I, figure 1(b)": "If each flow transmits data at rate 0 ≤ x ≤ 9 on its one-hop path and at "
    "rate (9−x)/2 on its two-hop path, then bandwidth sharing is always fair. Among these fair "
    "outcomes, the most efficient one is x = 9, because every flow can obtain the maximum "
    "transmission rate.",
    "II-A, (6)": "This cycle repeats and it will ultimately converge to the dual optimal solution "
    "λ∗ , hence the primal optimal solution x∗ (λ∗ ), provided that γ is sufficiently small and Us "
    "(·) satisfies some mild conditions [12].",
    "II-A, turning off": "at each step of the iterative process, every flow turns off all its "
    "paths except for the least congested ones.",
    "II-A, proposition 1": "Suppose flow s has n > 0 paths and, given λ ≥ 0, the corresponding "
    "path prices are sorted in ascending order ... Then the optimal solution x∗s,r (λ) of (3) "
    "satisfies",
    "II-A, corollary 1": "In the model (1), if every flow strives to equalize the extent of "
    "congestion that it perceives on all its available paths by means of shifting traffic, then "
    "network resources will be fairly and efficiently shared by all the flows.",
    "II-B and III-A, convergence": "As t goes to infinity, the dual optimal solution λ∗ and the "
    "primal optimal solution x∗ (λ∗ ) will both be reached.",
    "III-A, first weights": "Note that the initial weights do not matter much to convergence, "
    "though they could have effect on the position of the equilibrium point in the case where the "
    "optimal solution is not unique.",
    "III-B, the sum of alpha": "αs is allocated to all the subflows of flow s.",
    "V-A, algorithm 2": "all the rates of subflows are quite close to the corresponding optimal "
    "values after about 20 steps and the path prices of S2 tend to be equal.",
    "V-A, first weights": "Note that initial weights are insignificant for convergence.",
}

QUOTES: Mapping[str, Mapping[str, str]] = {
    "balia": BALIA,
    "itcp": ITCP,
    "olia": OLIA,
    "rsf": RSF,
    "wvegas": WVEGAS,
}


def quoted(paper: str, statements: Iterable[Statement]) -> list[Statement]:
    """The statements with their printed words.

    Raises `LookupError` where a printed statement has no quote, or one of ours has.
    """
    found = []
    for one in statements:
        words = QUOTES[paper].get(one.place, "")
        if bool(words) != (one.verdict in QUOTED):
            raise LookupError(f"{paper}, {one.place} ({one.verdict}): the quote is {words!r}")
        found.append(replace(one, printed=words))
    return found
