package main

import (
	"slices"

	"github.com/oscarfed/oscarfed/test/history"
)

// defect is one fault of the product, made by changes of its text. Where a second line of defence
// would hide it, that one is taken away, too.
type defect struct {
	name string
	// mended is the commit that this takes back; empty for a defect that the product never had.
	mended string
	edits  []edit
	// met says whether a history can meet the defect; nil where all can.
	met func(history.Plan) bool
	// scene is the trial in which it shows; empty when none was made for it.
	scene string
}

// edit is one change to one file.
type edit struct{ file, old, new string }

// one is a defect of one change.
func one(name, file, old, changed string) defect {
	return defect{name: name, edits: []edit{{file, old, changed}}}
}

// and adds a change to a defect.
func (d defect) and(file, old, changed string) defect {
	d.edits = append(d.edits, edit{file, old, changed})
	return d
}

// was names the commit that had mended the defect.
func (d defect) was(commit string) defect {
	d.mended = commit
	return d
}

// in says in which histories the defect can be met.
func (d defect) in(met func(history.Plan) bool) defect {
	d.met = met
	return d
}

// shows says in which trial it shows: that one is made first, alone.
func (d defect) shows(scene string) defect {
	d.scene = scene
	return d
}

// meets says whether a history can meet the defect.
func (d defect) meets(p history.Plan) bool { return d.met == nil || d.met(p) }

// restores says that a history has a restore, and guests that a cluster leaves and comes.
func restores(p history.Plan) bool { return p.Restores() }

func guests(p history.Plan) bool { return p.Shape.Guests > 0 }

// seesSecrets says that the syncers of a history see Secrets.
func seesSecrets(p history.Plan) bool { return p.Shape.Kubernetes }

// stops says that somebody stops an exposed service.
func stops(p history.Plan) bool { return p.Stops() }

// defects are all of them.
func defects() []defect {
	return slices.Concat(ofTheStore(), ofFederations(), ofJobs(), ofTheSyncer(), ofRecovery())
}
