// Package plans shows plans, and keeps them in files that apply --plan takes.
package plans
