/** Reports the server's health, readiness, metrics, settings and counts; rotates its task key. */
import { now } from '../../base/clock.ts';
import { toFileNames } from '../../contract/server-file.ts';
import { listReplicas } from '../../store/operations/replicas.ts';
import { countByStatus, countHeld } from '../../store/rows/counts.ts';
import { countOpenFindings } from '../../store/rows/findings.ts';
import { countNeverReady } from '../../store/rows/nodes.ts';
import { countPools } from '../../store/rows/pools.ts';
import { actorOf } from '../http/callers.ts';
import type { Handlers } from '../services.ts';

export const serverHandlers: Pick<
  Handlers,
  'task-key-rotate' | 'health-get' | 'readiness-get' | 'metrics-get' | 'settings-get' | 'overview-get'
> = {
  async 'task-key-rotate'({ person, correlation_id }, { db, installation }) {
    const by = { actor: actorOf(person()), correlation_id };
    const { kid, signs_from, former_kid, former_accepted_until } = await installation.rotateTaskKey(db, by);
    return {
      kid,
      signs_from: signs_from.toISOString(),
      former_kid,
      former_accepted_until: former_accepted_until.toISOString(),
    };
  },
  'health-get': async ({ query }, { settings, installation }) => ({
    status: 'ok',
    version: settings.version,
    ...(query?.nonce && { identity: installation.identify(query.nonce) }),
  }),
  async 'readiness-get'({ reply }, services) {
    const checks = await services.readiness();
    const isReady = Object.values(checks).every((check) => check.ok);
    if (!isReady) reply.status(503);
    return { status: isReady ? 'ready' : 'not ready', checks };
  },
  async 'metrics-get'({ person, reply }, services) {
    const metrics = await services.metrics(person().is_unchecked ? 'replica' : 'all');
    await reply.type('text/plain; version=0.0.4; charset=utf-8').send(metrics);
    return undefined;
  },
  async 'settings-get'(_, { settings, environment, db }) {
    const { decide: _deciders, ...fileSettings } = environment;
    return db.redact.value({
      version: settings.version,
      node_version: process.version,
      platform: `${process.platform} ${process.arch}`,
      started_with: settings.started_with,
      sources: settings.sources,
      decides_by: toFileNames(fileSettings),
    });
  },
  async 'overview-get'(_, { db, clock }) {
    const at = now(clock);
    const [statusCounts, pools, replicas, held, never_ready, findings] = await Promise.all([
      countByStatus(db),
      countPools(db),
      listReplicas(db, at),
      countHeld(db),
      countNeverReady(db),
      countOpenFindings(db),
    ]);
    return {
      at: at.toISOString(),
      ...statusCounts,
      pools,
      held: held.reduce((sum, { count }) => sum + count, 0),
      never_ready,
      findings: Object.fromEntries(findings.map(({ kind, count }) => [kind, count])),
      replicas,
    };
  },
};
