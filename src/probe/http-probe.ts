/**
 * Asks a node whether it is there: one GET, one answer. It decides nothing about the node. Its name is resolved once, every
 * address of it is judged, and only judged addresses are connected to.
 */
import { isIP } from 'node:net';
import type { Clock } from '../base/clock.ts';
import { judgeAddress } from './address-policy.ts';
import { type Asked, askAddress, isSuccess, most_bytes } from './ask-address.ts';
import { hostOf, probeUrl } from './probe-url.ts';
import { type Resolve, systemResolve } from './resolve-name.ts';

export interface ProbeTarget {
  base_url: string;
  path: string;
  /** For everything together: the name, the connection, the whole answer. */
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
  /** The host answered that nothing listens there. */
  | 'connection_refused'
  /** No connection, or no answer on it: the fault may lie anywhere on the way. */
  | 'unreachable'
  | 'timed_out'
  | 'bad_status'
  | 'bad_url'
  | 'too_large';

export type ProbeAnswer =
  | { ok: true; status: number; milliseconds: number }
  | { ok: false; because: ProbeFailure; detail: string };

/** In words for whoever reads of it. */
export const saidBy = (answer: ProbeAnswer): string =>
  answer.ok
    ? `status ${answer.status} in ${Math.round(answer.milliseconds)} ms`
    : `${answer.because}: ${answer.detail}`;

type Failed = Extract<ProbeAnswer, { ok: false }>;

const failed = (because: ProbeFailure, detail: string): Failed => ({ ok: false, because, detail });

/** A name with many addresses must not turn one probe into a knock at each of them. */
const most_addresses_tried = 4;

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
    return answerFrom(await askInTurn(aim.url, addresses, time), aim.url, time);
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
  const { promise: outOfTime, resolve: tellOutOfTime } = Promise.withResolvers<Failed>();
  const tell = () => tellOutOfTime(failed('timed_out', `${host} was not resolved within ${time.seconds} s`));
  time.signal.addEventListener('abort', tell, { once: true });
  return Promise.race([lookUp(host, resolve), outOfTime]);
}

async function lookUp(host: string, resolve: Resolve): Promise<readonly string[] | Failed> {
  try {
    const addresses = await resolve(host);
    return addresses.length > 0 ? addresses : failed('unresolvable', `${host} has no address`);
  } catch (error) {
    return failed('unresolvable', `${host} cannot be resolved: ${error instanceof Error ? error.message : error}`);
  }
}

/** One forbidden address refuses them all: a name that has both kinds waits for the moment when the other one is taken. */
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

/** A host with addresses of both families may serve on one of them only, so a closed door is not the last word. */
async function askInTurn(url: URL, known: readonly string[], time: TimeLimit): Promise<Asked> {
  const { clock, signal } = time;
  const doors: string[] = [];
  const addresses = known.slice(0, most_addresses_tried);
  // Of an address that is not tried, nobody knows.
  let refused = addresses.length === known.length;
  for (const [turn, address] of addresses.entries()) {
    const others = addresses.length - turn;
    const left_ms = time.seconds * 1000 - time.passedMs();
    // The last one may use up all that is left.
    const connect_ms = others > 1 ? left_ms / others : undefined;
    const asked = await askAddress(url, address, { clock, signal, connect_ms });
    if (asked.got !== 'no_connection') return asked;
    doors.push(asked.why);
    refused &&= asked.refused;
  }
  return { got: 'no_connection', why: doors.join('; '), refused };
}

function answerFrom(asked: Asked, url: URL, time: TimeLimit): ProbeAnswer {
  switch (asked.got) {
    case 'status':
      if (isSuccess(asked.status)) {
        return { ok: true, status: asked.status, milliseconds: Math.round(time.passedMs()) };
      }
      return failed('bad_status', `${url.host} answered ${asked.status}; only 2xx counts, and no redirect is followed`);
    case 'too_much':
      return failed('too_large', `${url.host} sent more than ${most_bytes / 1024} KiB; a health answer is a short one`);
    case 'no_time':
      return failed('timed_out', `${url.host} gave no whole answer within ${time.seconds} s`);
    case 'no_connection':
      return failed(asked.refused ? 'connection_refused' : 'unreachable', `${url.host}: ${asked.why}`);
    case 'no_answer':
      return failed('unreachable', `${url.host}: ${asked.why}`);
  }
}
