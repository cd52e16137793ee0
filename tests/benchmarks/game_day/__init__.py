"""Do to a running installation what may happen: which alert comes, which does not, and is a forecast out?"""
