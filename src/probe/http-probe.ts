/**
 * Probes a node with one GET. Decides nothing about the node. The name is resolved once, every
 * address is checked, and only checked addresses are connected to.
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
export function oneLookupPerName(resolve: Resolve): Resolve {
  const running = new Map<string, Promise<readonly string[]>>();
  return (name) => {
    const known = running.get(name);
    if (known) return known;
    const fresh = resolve(name).finally(() => running.delete(name));
    running.set(name, fresh);
    return fresh;
  };
}

/**
 * Resolves a name to all its addresses, as this host does: hosts file, search domains, name
 * servers.
 */
export const systemResolve: Resolve = oneLookupPerName(async (name) =>
  (await lookup(name, { all: true })).map(({ address }) => address),
);

export interface ProbeTarget {
  base_url: string;
  path: string;
  /** For everything together: lookup, connection and response. */
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
  /** No connection, or no response on it; the fault may be anywhere on the way. */
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

type Failed = Extract<ProbeAnswer, { ok: false }>;

const failed = (because: ProbeFailure, detail: string): Failed => ({ ok: false, because, detail });

/** Bounds how many hosts one probe can reach through a name with many addresses. */
const max_addresses = 4;

export async function probe(target: ProbeTarget, deps: ProbeDeps): Promise<ProbeAnswer> {
  const { clock, resolve = systemResolve } = deps;
  const aim = probeUrl(target.base_url, target.path);
  if ('wrong' in aim) return failed('bad_url', aim.wrong);

  const time = timeLimit(clock, target.timeout_seconds);
  try {
    const addresses = await addressesOf(hostOf(aim.url), resolve, time);
    if ('because' in addresses) return addresses;
    const refused = refusalOf(addresses, target.allow_private);
    if (refused) return refused;
    return answerFrom(await tryAddresses(aim.url, addresses, time), aim.url, time);
  } finally {
    time.stop();
  }
}

interface TimeLimit {
  clock: Clock;
  seconds: number;
  signal: AbortSignal;
  passedMs(): number;
  stop(): void;
}

function timeLimit(clock: Clock, seconds: number): TimeLimit {
  const over = new AbortController();
  const started_ms = clock.monotonicMs();
  const stop = clock.after(seconds * 1000, () => over.abort());
  return { clock, seconds, signal: over.signal, passedMs: () => clock.monotonicMs() - started_ms, stop };
}

async function addressesOf(host: string, resolve: Resolve, time: TimeLimit): Promise<readonly string[] | Failed> {
  if (isIP(host)) return [host];
  const { promise: timedOut, resolve: resolveTimeout } = Promise.withResolvers<Failed>();
  const onTimeout = () => resolveTimeout(failed('timed_out', `${host} was not resolved within ${time.seconds} s`));
  time.signal.addEventListener('abort', onTimeout, { once: true });
  return Promise.race([lookUp(host, resolve), timedOut]);
}

async function lookUp(host: string, resolve: Resolve): Promise<readonly string[] | Failed> {
  try {
    const addresses = await resolve(host);
    return addresses.length > 0 ? addresses : failed('unresolvable', `${host} has no address`);
  } catch (error) {
    return failed('unresolvable', `${host} cannot be resolved: ${error instanceof Error ? error.message : error}`);
  }
}

/**
 * One forbidden address refuses the name: otherwise a name with both kinds could pass the check
 * with one and be connected to at the other.
 */
function refusalOf(addresses: readonly string[], allow_private: boolean): Failed | undefined {
  for (const address of addresses) {
    const verdict = judgeAddress(address, { allow_private });
    if (verdict.allowed) continue;
    const kind = verdict.because.replaceAll('_', ' ');
    const remedy = judgeAddress(address, { allow_private: true }).allowed
      ? '; set probe.allow_private in the pool if its nodes live there'
      : '; such addresses are never probed';
    return failed('refused_address', `${address} is refused (${kind})${remedy}`);
  }
  return undefined;
}

/** Tries the addresses in turn, because a host may serve on one address family only. */
async function tryAddresses(url: URL, known: readonly string[], time: TimeLimit): Promise<Reply> {
  const { clock, signal } = time;
  const faults: string[] = [];
  const addresses = known.slice(0, max_addresses);
  // With an untried address left, the host as a whole has not refused.
  let refused = addresses.length === known.length;
  for (const [turn, address] of addresses.entries()) {
    const others = addresses.length - turn;
    const left_ms = time.seconds * 1000 - time.passedMs();
    // The last address may use all the time that is left.
    const connect_ms = others > 1 ? left_ms / others : undefined;
    const reply = await getAddress(url, address, { clock, signal, connect_ms });
    if (reply.got !== 'no_connection') return reply;
    faults.push(reply.why);
    refused &&= reply.refused;
  }
  return { got: 'no_connection', why: faults.join('; '), refused };
}

function answerFrom(reply: Reply, url: URL, time: TimeLimit): ProbeAnswer {
  switch (reply.got) {
    case 'status':
      if (isSuccess(reply.status)) {
        return { ok: true, status: reply.status, milliseconds: Math.round(time.passedMs()) };
      }
      return failed('bad_status', `${url.host} answered ${reply.status}; only 2xx counts, and no redirect is followed`);
    case 'too_much':
      return failed('too_large', `${url.host} sent more than ${max_bytes / 1024} KiB; a health answer is a short one`);
    case 'no_time':
      return failed('timed_out', `${url.host} gave no whole answer within ${time.seconds} s`);
    case 'no_connection':
      return failed(reply.refused ? 'connection_refused' : 'unreachable', `${url.host}: ${reply.why}`);
    case 'no_answer':
      return failed('unreachable', `${url.host}: ${reply.why}`);
  }
}
