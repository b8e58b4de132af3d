/**
 * Measures the memory per agent session in a replica and the time to load all sessions. The store
 * is simulated and returns rows of realistic length, so that only the sessions are measured.
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
  duration: 'about twenty seconds; with --quick three',
  options: {
    quick: common.quick,
    json: common.json,
    nodes: { kind: 'count', description: 'number of agents (1000000; with --quick 100000)' },
  },
});
const { quick, nodes = quick ? 100_000 : 1_000_000 } = options;
const batch = 1_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Returns a new string, as if the value came from the wire; literals would share memory. */
const copyOf = (text: string) => Buffer.from(text, 'latin1').toString('latin1');
const credentialOf = (number: number) => `swc_${String(number).padStart(43, 'c')}`;

function rowOf(hash: Buffer, number: number): Row {
  const tail = String(number).padStart(20, '0');
  return {
    node_instance_id: copyOf(`inst_${tail}`),
    node_id: copyOf(`node_${tail}`),
    credential_hash: hash,
    next_credential_hash: null,
    credential_used_at: now(systemClock),
    fenced_at: null,
    fence_reason: null,
    revoked_at: null,
    door: null,
    announced_interval_seconds: null,
    client_instance: null,
    pool: copyOf(`pool-${number % 20}`),
    name: copyOf(`machine-${number}`),
    node_status: copyOf('ready'),
    reported_status: copyOf('ready'),
    verdict_rule: null,
    current_instance: copyOf(`inst_${tail}`),
    correlation_id: copyOf(String(number).padStart(32, 'a')),
    allocation_id: number % 2 === 0 ? copyOf(`alloc_${tail}`) : null,
    heartbeat: null,
    stored_interval_seconds: 10.25,
    tasks_waiting: 0,
  };
}

let queries = 0;
const simulatedStore = {
  query: async (_text: string, [hashes]: [Buffer[]]) => {
    queries++;
    const first = (queries - 1) * batch;
    return hashes.map((hash, index) => rowOf(hash, first + index));
  },
} as unknown as Database;

const loadBefore = loadavg();
collectGarbage();
const before = { heap: process.memoryUsage().heapUsed, resident: residentMb(process.pid) };
const sessions = createAgentSessions(simulatedStore);
const startedMs = systemClock.monotonicMs();
const cpuBefore = process.cpuUsage();
for (let first = 0; first < nodes; first += batch) {
  const credentials = Array.from({ length: batch }, (_, index) => credentialOf(first + index));
  await Promise.all(credentials.map((credential) => sessions.find(credential, now(systemClock))));
}
const { user, system } = process.cpuUsage(cpuBefore);
const loadMs = systemClock.monotonicMs() - startedMs;
const peakMb = residentMb(process.pid);
const collectionStartedMs = systemClock.monotonicMs();
collectGarbage();
const collectionMs = systemClock.monotonicMs() - collectionStartedMs;
const heapMb = (process.memoryUsage().heapUsed - before.heap) / 2 ** 20;
const lookups = 200_000;
const lookupStartedMs = systemClock.monotonicMs();
for (let number = 0; number < lookups; number++)
  if (!sessions.getCached(credentialOf((number * 7919) % nodes))) throw new Error('a session is missing');
const lookupUs = ((systemClock.monotonicMs() - lookupStartedMs) * 1000) / lookups;
const hashStartedMs = systemClock.monotonicMs();
for (let number = 0; number < lookups; number++) hashSecret(credentialOf((number * 7919) % nodes));
const hashUs = ((systemClock.monotonicMs() - hashStartedMs) * 1000) / lookups;

const figures: Figure[] = [
  { what: 'agents', value: nodes, unit: '' },
  { what: 'bytes per session', value: (heapMb * 2 ** 20) / nodes, unit: '' },
  { what: 'memory of all sessions', value: heapMb, unit: 'MB', target: (600 * nodes) / 1_000_000 },
  { what: 'resident memory after loading', value: peakMb, unit: 'MB', target: 1_500 },
  { what: 'resident memory before', value: before.resident, unit: 'MB' },
  { what: 'CPU time to load one session', value: (user + system) / nodes, unit: 'µs' },
  { what: 'time to load all sessions', value: loadMs / 1000, unit: 's' },
  { what: 'one full garbage collection', value: collectionMs, unit: 'ms' },
  { what: 'finding a loaded session', value: lookupUs, unit: 'µs' },
  { what: 'hashing a credential, for comparison', value: hashUs, unit: 'µs' },
  { what: 'queries to the store, per agent', value: queries / nodes, unit: '×' },
];
report(options, 'sessions', figures, loadBefore, { medianOf: 'one pass' });
