package kube_test

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// once checks that exactly one copy of the Job runs, or can run, and that none was
// killed: at the end of a history, with a node that has room for everything.
func (h *history) once(end record.OfferState) {
	h.t.Helper()
	if end == record.OfferReleased {
		if !h.accepted {
			h.t.Error("it was released and accepted by nobody")
		}
		kubetest.Eventually(h.t, "the Job and its pods are gone", func() bool {
			h.node()
			list, err := shared.Cluster(h.t).Client().CoreV1().Pods(h.namespace).List(h.t.Context(), metav1.ListOptions{})
			return err == nil && len(list.Items) == 0 && h.job() == nil
		})
	} else {
		kubetest.Eventually(h.t, "it runs here", func() bool {
			if j := h.job(); j != nil && j.Suspended && j.Queue != "" {
				h.admit() // Kueue has room for it
			}
			h.schedule()
			return len(h.begun) > 0
		})
		if j := h.job(); j == nil || j.Ended || j.Suspended || j.Mark.Holding() || len(j.Pods) != 1 || j.Pods[0].Held || j.Workload != nil && !j.Workload.Active {
			h.t.Errorf("it is %s", shown(j))
		}
	}
	copies := len(h.begun)
	if h.accepted {
		copies++
	}
	if copies != 1 || len(h.killed) > 0 {
		h.t.Errorf("%d copies were started, %d killed", copies, len(h.killed))
	}
	if _, o, answered := h.offer(); o != nil || answered {
		h.t.Errorf("there still is %+v", o)
	}
}

// The steps of one offer in Kubernetes: mark, hold, suspend, and delete or resume.
const plainSteps = 4

// TestAWaitingJobIsOffered: held and released, or given back.
func TestAWaitingJobIsOffered(t *testing.T) {
	t.Parallel()
	for end, want := range map[record.OfferWord]record.OfferState{
		record.OfferRelease: record.OfferReleased, record.OfferRestore: record.OfferRestored,
	} {
		t.Run(string(end), func(t *testing.T) {
			h := newHistory(t, "offer-"+string(end), end)
			got := h.play()
			if got != want || h.steps-h.refused != plainSteps {
				t.Errorf("%s after %d steps", got, h.steps)
			}
			h.once(got)
		})
	}
}

// TestAJobIsStartedOnceWhenItsPodIsBoundAtTheWorstMoment: before and after each step.
func TestAJobIsStartedOnceWhenItsPodIsBoundAtTheWorstMoment(t *testing.T) {
	t.Parallel()
	for _, end := range []record.OfferWord{record.OfferRelease, record.OfferRestore} {
		for step := range plainSteps {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%t", end, step, after), func(t *testing.T) {
					h := newHistory(t, fmt.Sprintf("bound-%s-%d-%t", end, step, after), end)
					h.at = func(n int, then bool) {
						if n == step && then == after {
							h.schedule()
						}
					}
					got := h.play()
					// Before it is held, it starts; from then on it cannot.
					if step < 1 || step == 1 && !after {
						if got != record.OfferStarted {
							t.Errorf("it ended as %s", got)
						}
					} else if got == record.OfferStarted {
						t.Error("it started")
					}
					h.once(got)
				})
			}
		}
	}
}

// TestASyncerThatDiesAtAnyStepIsFollowedByOneThatGoesOn: before and after each write to
// Kubernetes, and with a node that has room for everything in between.
func TestASyncerThatDiesAtAnyStepIsFollowedByOneThatGoesOn(t *testing.T) {
	t.Parallel()
	for _, end := range []record.OfferWord{record.OfferRelease, record.OfferRestore} {
		for step := range plainSteps {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%t", end, step, after), func(t *testing.T) {
					h := newHistory(t, fmt.Sprintf("dies-%s-%d-%t", end, step, after), end)
					killed := false
					h.at = func(n int, then bool) {
						if n == step && then == after && !killed {
							killed = true
							h.kill()
						}
					}
					got := h.play()
					// After its last step a history may be over before anybody can be killed.
					if last := step == plainSteps-1 && after; !killed && !last {
						t.Error("nobody was killed")
					}
					h.once(got)
				})
			}
		}
	}
}

// TestOffersBeginWhenKubernetesAnswersAgain: it did not when the syncer started.
func TestOffersBeginWhenKubernetesAnswersAgain(t *testing.T) {
	h := newHistory(t, "offer-unwatched", record.OfferRelease)
	h.unwatched = 2
	h.once(h.play())
}

// TestAJobThatIsHeldWhenOffersAreSwitchedOffIsBroughtToAnEnd: by the answer, if another
// cluster may have it, and given back otherwise.
func TestAJobThatIsHeldWhenOffersAreSwitchedOffIsBroughtToAnEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []record.OfferWord{record.OfferRelease, record.OfferRestore} {
		for step := range plainSteps - 1 {
			t.Run(fmt.Sprintf("%s-%d", end, step), func(t *testing.T) {
				h := newHistory(t, fmt.Sprintf("off-%s-%d", end, step), end)
				killed := false
				h.at = func(n int, after bool) {
					if n == step && after && !killed {
						killed, h.off = true, true
						h.kill()
					}
				}
				got := h.play()
				if !killed {
					t.Error("nobody was killed")
				}
				h.once(got)
			})
		}
	}
}

// The steps of one offer of a Job that Kueue holds: mark, with which it leaves its queue,
// deactivate, and delete; or restoring, activate, and unmark, with which it is back.
func queuedSteps(end record.OfferWord) int {
	if end == record.OfferRelease {
		return 3
	}
	return 5
}

// TestAJobThatKueueHoldsIsOffered: out of its queue, also when Kueue admits it in between.
// What was written into its template instead was written again and again, since Kueue
// takes it out each time.
func TestAJobThatKueueHoldsIsOffered(t *testing.T) {
	t.Parallel()
	for _, end := range []record.OfferWord{record.OfferRelease, record.OfferRestore} {
		for admitted := -1; admitted < queuedSteps(end); admitted++ {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%t", end, admitted, after), func(t *testing.T) {
					h := newHistory(t, fmt.Sprintf("kueue-%s-%d-%t", end, admitted+1, after), end, queued)
					h.enqueue()
					h.at = func(n int, then bool) {
						if n == admitted && then == after {
							h.admit()
							h.schedule()
						}
					}
					got := h.play()
					if admitted < 0 && (got == record.OfferStarted || h.steps-h.refused != queuedSteps(end)) {
						t.Errorf("%s after %d steps", got, h.steps)
					}
					h.once(got)
				})
			}
		}
	}
}

// TestAJobThatKueueHasAdmittedIsOffered: its pod is held, and it leaves its queue.
func TestAJobThatKueueHasAdmittedIsOffered(t *testing.T) {
	t.Parallel()
	for end, want := range map[record.OfferWord]record.OfferState{
		record.OfferRelease: record.OfferReleased, record.OfferRestore: record.OfferRestored,
	} {
		t.Run(string(end), func(t *testing.T) {
			h := newHistory(t, "kueue-admitted-"+string(end), end, queued)
			h.enqueue()
			kubetest.Eventually(t, "its controller has seen that it is suspended", func() bool { return h.job().Settled })
			h.admit()
			got := h.play()
			if got != want || h.steps-h.refused != plainSteps {
				t.Errorf("%s after %d steps", got, h.steps)
			}
			h.once(got)
		})
	}
}

// TestAJobOfAKueueThatManagesAllJobsIsNotLost: with manageJobsWithoutQueueName, Kueue takes
// the queue from the Workload of a Job that has left, and does not write it back.
func TestAJobOfAKueueThatManagesAllJobsIsNotLost(t *testing.T) {
	h := newHistory(t, "kueue-manages-all", record.OfferRestore, queued)
	h.enqueue()
	w := workloads(t, h.namespace)
	h.at = func(n int, after bool) {
		if n == 1 && !after {
			_, err := w.Patch(context.WithoutCancel(t.Context()), "job-"+h.key.Name, types.MergePatchType, []byte(`{"spec":{"queueName":null}}`), metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			}
		}
	}
	h.once(h.play())
	got, err := w.Get(t.Context(), "job-"+h.key.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if queue, _, err := unstructured.NestedString(got.Object, "spec", "queueName"); err != nil || queue != "q" {
		t.Errorf("its Workload is in the queue %q, %v", queue, err)
	}
}

// TestASyncerThatDiesLeavesNoJobOutsideItsQueue: before and after each write.
func TestASyncerThatDiesLeavesNoJobOutsideItsQueue(t *testing.T) {
	t.Parallel()
	for _, end := range []record.OfferWord{record.OfferRelease, record.OfferRestore} {
		for step := range queuedSteps(end) {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%t", end, step, after), func(t *testing.T) {
					h := newHistory(t, fmt.Sprintf("kueue-dies-%s-%d-%t", end, step, after), end, queued)
					h.enqueue()
					killed := false
					h.at = func(n int, then bool) {
						if n == step && then == after && !killed {
							killed = true
							h.kill()
						}
					}
					h.once(h.play())
				})
			}
		}
	}
}

// TestAJobThatIsDeletedByHandIsNotOfferedAnyMore, and nothing is made in its place.
func TestAJobThatIsDeletedByHandIsNotOfferedAnyMore(t *testing.T) {
	t.Parallel()
	for step := range 3 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			h := newHistory(t, fmt.Sprintf("deleted-%d", step), record.OfferRestore)
			h.at = func(n int, after bool) {
				if n == step && after {
					background := metav1.DeletePropagationBackground
					err := shared.Cluster(t).Client().BatchV1().Jobs(h.namespace).Delete(context.WithoutCancel(t.Context()), h.key.Name, metav1.DeleteOptions{PropagationPolicy: &background})
					if err != nil {
						t.Error(err)
					}
				}
			}
			if got := h.play(); got != record.OfferStarted {
				t.Errorf("it ended as %s", got)
			}
			if j := h.job(); j != nil {
				t.Errorf("it is %s", shown(j))
			}
		})
	}
}

// TestAJobThatSomebodyResumesIsHis: it runs, and its offer ends.
func TestAJobThatSomebodyResumesIsHis(t *testing.T) {
	h := newHistory(t, "resumed-by-hand", record.OfferRestore)
	h.at = func(n int, after bool) {
		if n == 2 && after {
			h.resume()
		}
	}
	got := h.play()
	if got == record.OfferReleased {
		t.Errorf("it ended as %s", got)
	}
	h.once(got)
}
