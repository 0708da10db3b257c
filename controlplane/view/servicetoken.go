package view

// serviceAt is the place of a service.
type serviceAt struct{ Cluster, Service string }
