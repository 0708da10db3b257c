package server

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/api/server/middleware"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// routes is the whole API: a new path is added in this file and in openapi.yaml.
func (s *Server) routes() chi.Router {
	r := chi.NewRouter()
	r.Use(s.common()...)
	r.Use(s.limitBody)
	r.NotFound(s.notFound)
	r.MethodNotAllowed(s.notFound)

	r.With(middleware.AsOSCAR, s.deadline, s.limits.Probe).Get("/health", s.health)
	r.With(s.deadline, s.limits.Address).Get("/openapi.yaml", s.openAPI)
	r.With(s.deadline, s.limits.Address).Get("/system/login", s.handle(s.getLogin))
	r.Group(func(r chi.Router) {
		r.Use(s.deadline, s.limits.Address)
		r.Get("/", s.front)
		r.Get(uiRoute, s.handle(s.page))
		r.Get(uiFileRoute, s.handle(s.pageFile))
	})
	s.routesOfOSCAR(r)
	s.routesOfStreams(r)
	r.With(s.ready, s.deadline, s.authenticateService, s.limits.Caller, s.atATime).Get(replicasRoute, s.handle(s.getReplicas))
	r.Group(func(r chi.Router) {
		r.Use(s.ready, s.deadline, s.authenticate, s.limits.Caller, middleware.RefuseForms(s.log), s.atATime)
		s.routesOfFederations(r)
		s.routesOfJobs(r)
		s.routesOfClusters(r)
	})
	r.With(s.ready, s.streamed(supportTimeout), s.authenticate, s.limits.Caller, whileValid).Get(supportRoute, s.handle(s.getSupport))
	s.routesOfSyncers(r)
	return r
}

// common is what every request passes.
func (s *Server) common() []func(http.Handler) http.Handler {
	return middleware.Common(middleware.Config{
		Logger: s.log, Metrics: s.metrics, Tracer: s.cfg.Tracer, TrustedProxies: s.cfg.TrustedProxies, Origins: s.cfg.Origins,
		Sent:     []string{respond.IfMatch, lastEventIDHeader, v1.IdempotencyHeader, v1.PlanHeader},
		Answered: []string{pendingHeader, replayedHeader, jobIDHeader, warningHeader, v1.MissingHeader, clusterHeader, v1.ContinueHeader},
	})
}

// routesOfOSCAR are OSCAR's own paths.
func (s *Server) routesOfOSCAR(r chi.Router) {
	r.Group(func(r chi.Router) {
		r.Use(middleware.AsOSCAR, s.ready, s.deadline, s.authenticate, s.limits.Caller, s.atATime)
		r.Get("/system/info", s.handle(s.info))
		r.With(s.clustersAtATime).Get("/system/config", s.handle(s.config))
		r.Get("/system/status", s.handle(s.systemStatus))
		r.Get("/system/services", s.handle(s.listServices))
		r.Post("/system/services", s.handle(s.createService))
		r.Put("/system/services", s.handle(s.updateService))
		r.Get("/system/services/{service}", s.handle(s.getService))
		r.Delete("/system/services/{service}", s.handle(s.deleteService))
		r.Get(deploymentRoute, s.handle(s.getDeployment))
		r.Get(deploymentRoute+"/logs", s.handle(s.getDeploymentLogs))
		r.With(s.unbound).Post("/system/services/{service}/start", s.handle(s.setRunState(false)))
		r.With(s.unbound).Post("/system/services/{service}/stop", s.handle(s.setRunState(true)))
		r.Get("/system/logs", s.handle(s.managerLog))
		r.Get("/system/federation/{service}", s.handle(s.getMembers))
		r.Post("/system/federation/{service}", s.handle(s.addMembers))
		r.Put("/system/federation/{service}", s.handle(s.replaceMembers))
		r.Delete("/system/federation/{service}", s.handle(s.removeMembers))
	})
	// The service itself may submit jobs by its token.
	r.Group(func(r chi.Router) {
		r.Use(middleware.AsOSCAR, s.ready, s.deadline, s.authenticateService, s.limits.Caller, s.atATime)
		r.Post("/job/{service}", s.handle(s.submitJob))
	})
}

// routesOfStreams are the paths of OSCAR that are answered through the stream of a cluster.
func (s *Server) routesOfStreams(r chi.Router) {
	r.With(middleware.AsOSCAR, s.ready, s.streamed(runTimeout), s.authenticateService, s.limits.Caller, s.answersAtATime, whileValid).Post(runRoute, s.handle(s.runService))
	r.Group(func(r chi.Router) {
		r.Use(middleware.AsOSCAR, s.ready, s.streamed(logTimeout), s.authenticate, s.limits.Caller, whileValid)
		r.With(s.answersAtATime).Get(logRoute, s.handle(s.getLog))
		r = r.With(s.clustersAtATime)
		r.Get(logsRoute, s.handle(s.listLogs))
		r.Delete(logsRoute, s.handle(s.deleteLogs))
		r.Delete(logRoute, s.handle(s.deleteLog))
		r.With(s.unbound).Post(restartRoute, s.handle(s.restartService))
		s.routesOfResources(r)
	})
}

// routesOfFederations are ours about federations, plans, what is deleted or differs, the audit, and the control
// plane itself.
func (s *Server) routesOfFederations(r chi.Router) {
	r.Get("/system/replicas", s.handle(s.listReplicas))
	r.Post(replicasRoute, s.handle(s.addReplicas))
	r.Put(replicasRoute, s.handle(s.replaceReplicas))
	r.Delete(replicasRoute, s.handle(s.removeReplicas))
	r.Get(replicasRoute+"/history", s.handle(s.history))
	r.Post(replicasRoute+"/rollback", s.handle(s.rollback))
	r.With(s.unbound).Put(replicasRoute+"/paused", s.handle(s.pause))
	r.With(s.unbound).Post(replicasRoute+"/rotate-token", s.handle(s.rotateToken))
	r.Get(refreshTokenRoute, s.handle(s.getRefreshToken))
	r.With(s.unbound).Put(refreshTokenRoute, s.handle(s.putRefreshToken))
	r.With(s.unbound).Delete(refreshTokenRoute, s.handle(s.deleteRefreshToken))
	r.Post("/system/plans", s.handle(s.planService))
	r.Get("/system/federations", s.handle(s.listFederations))
	r.Post("/system/federations", s.handle(s.createServices))
	r.Get("/system/federations/{federation}", s.handle(s.getFederation))
	r.Get("/system/deleted", s.handle(s.listDeleted))
	r.Get("/system/differences", s.handle(s.listDifferences))
	r.Post("/system/differences", s.handle(s.resolveDifference))
	r.Get("/system/audit", s.handle(s.listAudit))
	r.Get("/system/usage", s.handle(s.getUsage))
	r.Get("/system/whoami", s.handle(s.getWhoAmI))
	r.Get("/system/events", s.handle(s.listEvents))
	r.Get("/system/stats", s.handle(s.getStats))
	r.Post("/system/upgrade/finish", s.handle(s.finishUpgrade))
	r.Get(watchRoute, s.handle(s.watchAll))
}

func (s *Server) routesOfJobs(r chi.Router) {
	r.Get(jobsRoute, s.handle(s.listJobs))
	r.Get(jobRoute, s.handle(s.getJob))
	r.Get(jobRoute+"/explain", s.handle(s.explainJob))
	r.Post(jobRoute+"/cancel", s.handle(s.cancelJob))
	r.Post(jobRoute+"/replay", s.handle(s.replayJob))
	r.Post(jobRoute+"/resolve", s.handle(s.resolveJob))
}

func (s *Server) routesOfClusters(r chi.Router) {
	r.Get("/system/clusters", s.handle(s.listClusters))
	r.Post("/system/clusters", s.handle(s.registerCluster))
	r.Get("/system/clusters/{cluster}", s.handle(s.getCluster))
	r.Put("/system/clusters/{cluster}", s.handle(s.updateCluster))
	r.Delete("/system/clusters/{cluster}", s.handle(s.removeCluster))
	r.With(s.unbound).Put("/system/clusters/{cluster}/state", s.handle(s.setClusterState))
	r.Post("/system/clusters/{cluster}/join", s.handle(s.issueJoin))
}

// routesOfSyncers are for syncers that have no credentials but a token, or a key.
func (s *Server) routesOfSyncers(r chi.Router) {
	r.Group(func(r chi.Router) {
		r.Use(s.ready, s.deadline, s.limits.Address, middleware.RefuseForms(s.log), s.stranger)
		r.Post("/system/join", s.handleStranger(s.join))
		r.Post("/system/join/challenge", s.handleStranger(s.challenge))
		r.Post("/system/join/renew", s.handleStranger(s.renew))
		r.Post("/system/relay/challenge", s.handleStranger(s.challengeRelay))
	})
	r.With(s.ready, s.limits.Address).Get(relayRoute, s.openRelay)
}
