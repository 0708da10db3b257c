// Package versions tries today's programs beside those of the release before, over one store.
package versions
