"""A Flower app: clinics train a logistic regression by federated averaging."""
