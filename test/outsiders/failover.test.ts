/**
 * Primary databases are killed one after another and their synchronous standbys promoted, while
 * machines are allocated and released and agents send heartbeats. No acknowledged change is lost,
 * no machine gets a false verdict, and operations continue. The agents of allocations are real
 * processes; the others only send heartbeats and answer pings.
 */
import { onTestFinished, test } from 'vitest';
import { plainCluster } from './failover/cluster.ts';
import { type FailoverSize, runFailovers } from './failover/run.ts';
import { share } from './support/outsider.ts';

const size: FailoverSize = share(
  {
    failovers: 2,
    workers: 20,
    light_agents: 20,
    max_hold_seconds: 12,
    changes_between: 15,
    action_every_ms: 500,
    judges_every_round: false,
  },
  {
    failovers: 10,
    workers: 100,
    light_agents: 200,
    max_hold_seconds: 300,
    changes_between: 40,
    action_every_ms: 2_000,
    judges_every_round: true,
  },
);

test('a server whose URL lists both databases continues on the promoted standby', {
  timeout: share(300_000, 3_600_000),
}, async () => {
  const cluster = await plainCluster();
  onTestFinished(() => cluster.stop());
  await runFailovers(cluster, size);
});
