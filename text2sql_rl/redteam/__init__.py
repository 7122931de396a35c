"""Room 11: what a reward can be cheated out of, before anyone trains with it.

In: a rule file or a user's reward function, the attack files of rewards/attacks (this room is their door), databases.
Out: an audit at three levels (payouts, groups, a simulated policy) and, on request, attacks that a search found.
The project's own judge, rules and groups do all the judging; nothing here decides what is right.
"""
