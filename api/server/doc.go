// Package server owns the HTTP interface of the control plane: routes, handlers,
// authentication, and the serving of them. It decides nothing
// about federations; it asks the control plane, and says what it answered in
// OSCAR's words on OSCAR's paths and in our own words on ours.
//
// A request passes, in this order: request id, access log, metrics, recovery,
// CORS, trailing slash, body limit, routing, deadline, authentication, limits
// of the caller, handler. Package middleware has what comes before routing. Whatever a
// handler or a middleware refuses ends in one place: respond.Fail, with the one
// table from code to status.
package server
