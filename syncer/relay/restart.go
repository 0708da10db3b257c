package relay

import "net/http"

// restart has OSCAR restart the pods of an exposed service, if the service is ours.
func (h *handler) restart(r *http.Request) (Outgoing, *refusal) {
	if no := h.ours(r); no != nil {
		return Outgoing{}, no
	}
	return Outgoing{Method: http.MethodPost, Path: []string{"system", "services", r.PathValue("service"), "restart"}}, nil
}
