/**
 * Probes a node with one GET. Makes no decision about the node. The name is resolved once, every
 * address is checked, and connections go only to checked addresses.
 */

import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { judgeAddress } from './address-policy.ts';
import { getAddress, isSuccess, max_bytes, type Reply } from './get-address.ts';
import { hostOf, probeUrl } from './probe-url.ts';

export type Resolve = (name: string) => Promise<readonly string[]>;

/**
 * Shares one running lookup between all callers of the same name. A lookup cannot be cancelled and
 * blocks one of few threads, so a name server that does not answer would otherwise take one more
 * thread per probe.
 */
export function shareLookups(resolve: Resolve): Resolve {
  const running = new Map<string, Promise<readonly string[]>>();
  return (name) => {
    const runningLookup = running.get(name);
    if (runningLookup) return runningLookup;
    const newLookup = resolve(name).finally(() => running.delete(name));
    running.set(name, newLookup);
    return newLookup;
  };
}

/**
 * Resolves a name to all its addresses, as this host does: hosts file, search domains, name
 * servers.
 */
export const systemResolve: Resolve = shareLookups(async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address),
);

export interface ProbeTarget {
  base_url: string;
  path: string;
  /** The limit for lookup, connection and response together. */
  timeout_seconds: number;
  allow_private: boolean;
}

export interface ProbeDeps {
  clock: Clock;
  resolve?: Resolve;
}

export type ProbeFailure =
  | 'refused_address'
  | 'unresolvable'
  /** The host refused the connection: nothing listens on that port. */
  | 'connection_refused'
  /** No connection, or no response on it. The cause may be anywhere on the network. */
  | 'unreachable'
  | 'timed_out'
  | 'bad_status'
  | 'bad_url'
  | 'too_large';

export type ProbeAnswer =
  | { ok: true; status: number; milliseconds: number }
  | { ok: false; because: ProbeFailure; detail: string };

/** Describes an answer in one line, for people. */
export const describeAnswer = (answer: ProbeAnswer): string =>
  answer.ok
    ? `status ${answer.status} in ${Math.round(answer.milliseconds)} ms`
    : `${answer.because}: ${answer.detail}`;

type FailedAnswer = Extract<ProbeAnswer, { ok: false }>;

const failedAnswer = (because: ProbeFailure, detail: string): FailedAnswer => ({ ok: false, because, detail });

/** Limits how many hosts one probe can reach through a name with many addresses. */
const max_addresses = 4;

export async function probe(target: ProbeTarget, deps: ProbeDeps): Promise<ProbeAnswer> {
  const { clock, resolve = systemResolve } = deps;
  const parsedUrl = probeUrl(target.base_url, target.path);
  if ('problem' in parsedUrl) return failedAnswer('bad_url', parsedUrl.problem);
  const { url } = parsedUrl;

  const time = startTimeLimit(clock, target.timeout_seconds);
  try {
    const addresses = await resolveAddresses(hostOf(url), resolve, time);
    if ('because' in addresses) return addresses;
    const refusal = refusalOf(addresses, target.allow_private);
    if (refusal) return refusal;
    return answerFrom(await tryAddresses(url, addresses, time), url, time);
  } finally {
    time.stop();
  }
}

interface TimeLimit {
  clock: Clock;
  seconds: number;
  signal: AbortSignal;
  elapsedMs(): number;
  stop(): void;
}

function startTimeLimit(clock: Clock, seconds: number): TimeLimit {
  const timeout = new AbortController();
  const started_ms = clock.monotonicMs();
  const stop = clock.after(seconds * 1000, () => timeout.abort());
  return { clock, seconds, signal: timeout.signal, elapsedMs: () => clock.monotonicMs() - started_ms, stop };
}

async function resolveAddresses(
  host: string,
  resolve: Resolve,
  time: TimeLimit,
): Promise<readonly string[] | FailedAnswer> {
  if (isIP(host)) return [host];
  const { promise: timedOut, resolve: resolveTimeout } = Promise.withResolvers<FailedAnswer>();
  const onTimeout = () =>
    resolveTimeout(failedAnswer('timed_out', `${host} was not resolved within ${time.seconds} s`));
  time.signal.addEventListener('abort', onTimeout, { once: true });
  return Promise.race([lookUp(host, resolve), timedOut]);
}

async function lookUp(host: string, resolve: Resolve): Promise<readonly string[] | FailedAnswer> {
  try {
    const addresses = await resolve(host);
    return addresses.length > 0 ? addresses : failedAnswer('unresolvable', `${host} has no address`);
  } catch (error) {
    return failedAnswer(
      'unresolvable',
      `${host} cannot be resolved: ${error instanceof Error ? error.message : error}`,
    );
  }
}

/**
 * One forbidden address refuses the whole name. Otherwise a name could pass the check with an
 * allowed address and be probed at a forbidden one.
 */
function refusalOf(addresses: readonly string[], allow_private: boolean): FailedAnswer | undefined {
  for (const address of addresses) {
    const verdict = judgeAddress(address, { allow_private });
    if (verdict.allowed) continue;
    const kind = verdict.because.replaceAll('_', ' ');
    const remedy = judgeAddress(address, { allow_private: true }).allowed
      ? '; set probe.allow_private in the pool if its nodes have such addresses'
      : '; such addresses are never probed';
    return failedAnswer('refused_address', `${address} is refused (${kind})${remedy}`);
  }
  return undefined;
}

/** Tries one address after the other, since a host may serve on one address family only. */
async function tryAddresses(url: URL, resolved: readonly string[], time: TimeLimit): Promise<Reply> {
  const { clock, signal } = time;
  const failures: string[] = [];
  const addresses = resolved.slice(0, max_addresses);
  // If some addresses are not tried, the host as a whole has not refused.
  let refused = addresses.length === resolved.length;
  for (const [index, address] of addresses.entries()) {
    const untried = addresses.length - index;
    const remaining_ms = time.seconds * 1000 - time.elapsedMs();
    // The last address may use all of the remaining time.
    const connect_ms = untried > 1 ? remaining_ms / untried : undefined;
    const reply = await getAddress(url, address, { clock, signal, connect_ms });
    if (reply.got !== 'no_connection') return reply;
    failures.push(reply.why);
    refused &&= reply.refused;
  }
  return { got: 'no_connection', why: failures.join('; '), refused };
}

function answerFrom(reply: Reply, url: URL, time: TimeLimit): ProbeAnswer {
  switch (reply.got) {
    case 'status':
      if (isSuccess(reply.status)) {
        return { ok: true, status: reply.status, milliseconds: Math.round(time.elapsedMs()) };
      }
      return failedAnswer(
        'bad_status',
        `${url.host} answered ${reply.status}; only 2xx counts, and no redirect is followed`,
      );
    case 'too_much':
      return failedAnswer(
        'too_large',
        `${url.host} sent more than ${max_bytes / 1024} KiB; a health response must be short`,
      );
    case 'no_time':
      return failedAnswer('timed_out', `${url.host} sent no complete answer within ${time.seconds} s`);
    case 'no_connection':
      return failedAnswer(reply.refused ? 'connection_refused' : 'unreachable', `${url.host}: ${reply.why}`);
    case 'no_answer':
      return failedAnswer('unreachable', `${url.host}: ${reply.why}`);
  }
}
