/** Reports the state of the replica that answers, and changes its log level. */
import { iso, now } from '../../base/clock.ts';
import { installedLicences } from '../../base/files/licences.ts';
import type { ReadinessCheck } from '../../contract/fleet/overview.ts';
import type { ServerProblem } from '../../contract/fleet/server-status.ts';
import { daysUntilFull, serverProblemCatalogue, serverProblemSays } from '../../lifecycle/findings/server-problems.ts';
import { listReplicas } from '../../store/operations/replicas.ts';
import { actorOf } from '../http/callers.ts';
import type { Handlers } from '../services.ts';
import { recordLevelChange, toLevelChange } from './log-level.ts';
import type { LastingProblem } from './server-watch.ts';

function problemWire({ problem, since }: LastingProblem): ServerProblem {
  const { code, ...facts } = problem;
  const { title, remedy, owner } = serverProblemCatalogue[code];
  return {
    code,
    title,
    says: serverProblemSays(problem),
    remedy,
    owner_layer: owner,
    since: since.toISOString(),
    facts,
  };
}

export const statusHandlers: Pick<Handlers, 'server-status' | 'log-level-set'> = {
  async 'server-status'(_, services) {
    const { db, clock, settings, executor, serverWatch, sweeps, logLevel, ownConnections } = services;
    const at = now(clock);
    const { facts, problems } = await serverWatch.look();
    const { is_standby, server_version, schema_version, bytes } = await services.databaseFacts();
    const { certificate, backup, growth } = facts;
    return db.redact.value({
      at: at.toISOString(),
      replica_id: executor.replica_id,
      version: settings.version,
      node_version: process.version,
      started_at: facts.started_at.toISOString(),
      replicas: await listReplicas(db, at),
      database: {
        state: facts.database.state as ReadinessCheck['state'],
        detail: facts.database.detail,
        server_version,
        is_standby,
        schema_version,
        bytes,
        connections: facts.connections,
        own_connections: ownConnections(),
      },
      growth: growth && {
        bytes_per_day: growth.bytes_per_day,
        bytes_per_node_day: growth.bytes_per_node_day,
        full_in_days: daysUntilFull(facts),
      },
      tail_lag_seconds: facts.tail_lag_seconds,
      sweeps: sweeps().map((sweep) => ({
        ...sweep,
        last_run_at: iso(sweep.last_run_at),
        failed_at: iso(sweep.failed_at),
      })),
      disk: facts.disk,
      files: facts.files,
      heap: facts.heap,
      certificate: certificate && {
        starts_at: certificate.starts_at.toISOString(),
        ends_at: certificate.ends_at.toISOString(),
      },
      backup: backup && { last_at: iso(backup.last_at), due_at: backup.due_at.toISOString() },
      licences: await installedLicences(),
      log: logLevel.state(),
      problems: problems.map(problemWire),
    });
  },
  async 'log-level-set'({ body, person, correlation_id }, { db, clock, logLevel }) {
    const change = toLevelChange(body, clock);
    await recordLevelChange(db, change, { actor: actorOf(person()), correlation_id, at: now(clock) });
    return { level: change.level, usual: logLevel.state().usual, until: change.until.toISOString() };
  },
};
