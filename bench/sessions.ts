/**
 * Measures the memory per agent session in a replica and the time to load all sessions. The store
 * is simulated with rows of realistic length, so that only sessions are measured.
 */
import { loadavg } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { now, systemClock } from '../src/base/clock.ts';
import { hashSecret } from '../src/base/credentials/random-secret.ts';
import { createAgentSessions } from '../src/store/agents/sessions/agent-sessions.ts';
import type { Database, Row } from '../src/store/pg/database.ts';
import { type Figure, report } from './harness/measure.ts';
import { common, readOptions } from './harness/options.ts';
import { residentMb } from './harness/server-process.ts';

const options = readOptions(import.meta.url, {
  takes: 'about twenty seconds; with --quick three',
  options: {
    quick: common.quick,
    json: common.json,
    nodes: { kind: 'count', what: 'how many agents (1000000; with --quick 100000)' },
  },
});
const { quick, nodes = quick ? 100_000 : 1_000_000 } = options;
const batch = 1_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Every value is a separate string, as when it comes from the wire. */
const fresh = (text: string) => Buffer.from(text, 'latin1').toString('latin1');
const credentialOf = (number: number) => `swc_${String(number).padStart(43, 'c')}`;

function rowOf(hash: Buffer, number: number): Row {
  const tail = String(number).padStart(20, '0');
  return {
    node_instance_id: fresh(`inst_${tail}`),
    node_id: fresh(`node_${tail}`),
    credential_hash: hash,
    next_credential_hash: null,
    credential_used_at: now(systemClock),
    fenced_at: null,
    fence_reason: null,
    revoked_at: null,
    door: null,
    announced_interval_seconds: null,
    client_instance: null,
    pool: fresh(`pool-${number % 20}`),
    name: fresh(`machine-${number}`),
    node_status: fresh('ready'),
    reported_status: fresh('ready'),
    verdict_rule: null,
    current_instance: fresh(`inst_${tail}`),
    correlation_id: fresh(String(number).padStart(32, 'a')),
    allocation_id: number % 2 === 0 ? fresh(`alloc_${tail}`) : null,
    heartbeat: null,
    kept_interval_seconds: 10.25,
    tasks_waiting: 0,
  };
}

let queries = 0;
const played = {
  query: async (_text: string, [hashes]: [Buffer[]]) => {
    queries++;
    const first = (queries - 1) * batch;
    return hashes.map((hash, index) => rowOf(hash, first + index));
  },
} as unknown as Database;

const loadBefore = loadavg();
collectGarbage();
const before = { heap: process.memoryUsage().heapUsed, resident: residentMb(process.pid) };
const sessions = createAgentSessions(played);
const startedMs = systemClock.monotonicMs();
const began = process.cpuUsage();
for (let first = 0; first < nodes; first += batch) {
  const credentials = Array.from({ length: batch }, (_, index) => credentialOf(first + index));
  await Promise.all(credentials.map((credential) => sessions.find(credential, now(systemClock))));
}
const { user, system } = process.cpuUsage(began);
const learnedMs = systemClock.monotonicMs() - startedMs;
const peak = residentMb(process.pid);
const collectedMs = systemClock.monotonicMs();
collectGarbage();
const pauseMs = systemClock.monotonicMs() - collectedMs;
const heapMb = (process.memoryUsage().heapUsed - before.heap) / 2 ** 20;
const lookups = 200_000;
const lookedMs = systemClock.monotonicMs();
for (let number = 0; number < lookups; number++)
  if (!sessions.known(credentialOf((number * 7919) % nodes))) throw new Error('somebody was forgotten');
const lookupUs = ((systemClock.monotonicMs() - lookedMs) * 1000) / lookups;
const hashedMs = systemClock.monotonicMs();
for (let number = 0; number < lookups; number++) hashSecret(credentialOf((number * 7919) % nodes));
const hashUs = ((systemClock.monotonicMs() - hashedMs) * 1000) / lookups;

const figures: Figure[] = [
  { what: 'agents', value: nodes, unit: '' },
  { what: 'bytes for each', value: (heapMb * 2 ** 20) / nodes, unit: '' },
  { what: 'all sessions', value: heapMb, unit: 'MB', target: (600 * nodes) / 1_000_000 },
  { what: 'resident while learning', value: peak, unit: 'MB', target: 1_500 },
  { what: 'resident before', value: before.resident, unit: 'MB' },
  { what: 'processor time to learn one', value: (user + system) / nodes, unit: 'µs' },
  { what: 'time to learn all', value: learnedMs / 1000, unit: 's' },
  { what: 'collection of all garbage at once', value: pauseMs, unit: 'ms' },
  { what: 'finding a known one', value: lookupUs, unit: 'µs' },
  { what: 'a plain hash of its credential', value: hashUs, unit: 'µs' },
  { what: 'questions to the store for each agent', value: queries / nodes, unit: '×' },
];
report(options, 'sessions', figures, loadBefore, { medianOf: 'one pass' });
