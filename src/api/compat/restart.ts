/**
 * Decides whether a registration under a known name is a restart of the holder of the name. Clients
 * of foreign protocols may share one join token per pool, so the token proves nothing. The decision
 * rests on their process id, on their address and on whether the former address still answers.
 */
import { createHash } from 'node:crypto';
import { now, secondsLater } from '../../base/clock.ts';
import { givesCredential, type Protocol } from '../../contract/compat/protocol.ts';
import { ApiProblem } from '../../contract/errors/errors.ts';
import type { PoolDocument } from '../../contract/pool.ts';
import {
  type ContestReason,
  judgeProbeAnswer,
  judgeRegistration,
  type ProbeAnswer,
} from '../../lifecycle/joins/contest.ts';
import {
  addHolder,
  type ClientProcess,
  clearHolder,
  dropForgottenProcesses,
  judgeProcess,
  type KeepNamePolicy,
  maxProcesses,
  type ProcessVerdict,
} from '../../lifecycle/joins/duplicates.ts';
import { type Contest, NameContested, recordContest } from '../../store/agents/joins/contested-names.ts';
import { isNameHeld } from '../../store/agents/joins/known-names.ts';
import type { NameStanding } from '../../store/agents/joins/name-standing.ts';
import type { JudgedName } from '../../store/agents/registration-types.ts';
import { currentPool } from '../../store/rows/pools.ts';
import { probeTargetOf } from '../../store/supervision/probes.ts';
import type { ProbeFormerAddress, ProtocolServices } from './calls.ts';

export interface Claimant {
  protocol: Protocol;
  base_url: string | null;
  client_instance: string | null;
  join_token_id: string;
  /** The IP address that the registration came from. */
  source: string;
}

/** A client's process id is stored for each process, so a long one is hashed. */
const maxProcessLength = 64;
const processOf = (client_instance: string | null): string | null =>
  client_instance === null || client_instance.length <= maxProcessLength
    ? client_instance
    : createHash('sha256').update(client_instance).digest('hex');

/** The first holder has no entry until a second process registers. */
function listKnownProcesses({ client_processes, client_instance, endpoint }: NameStanding, at: Date): ClientProcess[] {
  const process = processOf(client_instance);
  const first = process === null ? [] : [{ process, endpoint, source: null, held_until: null }];
  return dropForgottenProcesses(client_processes ?? first, at);
}

/** Makes addresses equal that differ only in a trailing slash. */
const normalizeUrl = (url: string | null): string | null => {
  if (url === null || !URL.canParse(url)) return url;
  const { origin, pathname, search } = new URL(url);
  return `${origin}${pathname.replace(/\/+$/, '')}${search}`;
};

const isBeating = ({ status, last_seen_at, stale_seconds }: NameStanding, at: Date): boolean =>
  (status === 'starting' || status === 'ready' || status === 'degraded') &&
  last_seen_at !== null &&
  secondsLater(last_seen_at, stale_seconds ?? 0) > at;

/** The registering client waits for the probe. */
const maxProbeSeconds = 3;
const maxProbesAtOnce = 32;
/** Keeps one token from using up the probes of other pools. */
const maxProbesOfToken = 8;
/** Failures that prove that something answered at the address. */
const answeredCodes = ['bad_status', 'too_large'];

/** Registrations with one former address share its probe. Limits probes in total and per token. */
export function createFormerAddressProbe(services: Pick<ProtocolServices, 'probe'>): ProbeFormerAddress {
  const inProgress = new Map<string, Promise<ProbeAnswer>>();
  const probe = async (endpoint: string, settings: PoolDocument['probe']): Promise<ProbeAnswer> => {
    const target = probeTargetOf(endpoint, settings ?? null);
    const timeout_seconds = Math.min(target.timeout_seconds, maxProbeSeconds);
    const { ok, because = '' } = await services.probe({ ...target, timeout_seconds });
    if (ok || answeredCodes.includes(because)) return 'yes';
    // Slow, unreachable, unresolvable or not allowed: the fault may be ours and proves nothing.
    return because === 'connection_refused' ? 'no' : 'unknown';
  };
  const probesByToken = new Map<string, number>();
  const countToken = (id: string, change: 1 | -1) => {
    const count = (probesByToken.get(id) ?? 0) + change;
    if (count === 0) probesByToken.delete(id);
    else probesByToken.set(id, count);
  };
  return (endpoint, settings, join_token_id) => {
    const running = inProgress.get(endpoint);
    if (running) return running;
    if (inProgress.size >= maxProbesAtOnce || (probesByToken.get(join_token_id) ?? 0) >= maxProbesOfToken)
      throw new ApiProblem('rate_limited', {
        detail: 'Too many probes of former addresses are in progress. Register again in a second.',
        retry_after_seconds: 1,
      });
    countToken(join_token_id, 1);
    const answer = probe(endpoint, settings).finally(() => {
      inProgress.delete(endpoint);
      countToken(join_token_id, -1);
    });
    inProgress.set(endpoint, answer);
    return answer;
  };
}

const refusals: Record<ContestReason, { code: 'name_taken' | 'identity_unproven'; message(name: string): string }> = {
  key_unproven: {
    code: 'identity_unproven',
    message: (name) =>
      `${name} already has a credential, or waits for an operator's re-enrolment. Send its credential, or ask an operator to run: slipway act NODE re-enroll --reason "…"`,
  },
  name_held: {
    code: 'name_taken',
    message: (name) => `${name} is held by a live machine with a credential of its own.`,
  },
  second_process: {
    code: 'name_taken',
    message: (name) => `${name} is registered and its former process still runs; stop that one first.`,
  },
  other_endpoint: {
    code: 'identity_unproven',
    message: (name) =>
      `${name} serves a tenant at another address. Return at that address, or let an operator re-enrol the node.`,
  },
  two_processes: {
    code: 'name_taken',
    message: (name) =>
      `${name} is held by another live process. Stop one of the two, or give this one an id of its own.`,
  },
  many_processes: {
    code: 'name_taken',
    message: (name) =>
      `More than ${maxProcesses} processes registered as ${name} within an hour. Stop the process that holds the name, or use another id.`,
  },
};

export interface JudgedReturn {
  /** Checked again by the registration, under its row lock. */
  judged: JudgedName;
  /**
   * The processes that had the name, including the registering one; unset if there is nothing to
   * store.
   */
  client_processes?: ClientProcess[];
}

/**
 * Opens a finding and throws if the registration is not a restart. A process that takes its name
 * back opens a finding too, but is admitted.
 */
export async function mustBeRestart(
  standing: NameStanding,
  claimant: Claimant,
  services: ProtocolServices,
): Promise<JudgedReturn> {
  const at = now(services.clock);
  const document = (await currentPool(services.db, standing.pool))?.document;
  const known = listKnownProcesses(standing, at);
  const { protocol, base_url, join_token_id, source } = claimant;
  const { node_instance_id, endpoint, allocation_id } = standing;
  const process = processOf(claimant.client_instance);
  const holder = known.find(({ held_until }) => held_until === null);
  const contest = {
    node: standing,
    protocol,
    endpoint: base_url,
    join_token_id,
    source,
    holder_source: holder?.source ?? null,
  };

  const because = await findContest(standing, claimant, at, document, services);
  const verdict: ProcessVerdict =
    because === null
      ? judgeProcess({
          known,
          claimant: process,
          is_beating: isBeating(standing, at),
          keep: keepNamePolicyOf(document),
        })
      : 'restart';
  const refusal = because ?? processRefusals[verdict];
  if (refusal) {
    const { code, message } = refusals[refusal];
    const contested = new NameContested(code, message(standing.name), { ...contest, because: refusal });
    await recordContest(services.db, contested.contest, services.clock, at);
    throw contested;
  }
  if (verdict === 'takes_back') await noteTakenBack({ ...contest, because: 'two_processes' }, services, at);
  const judged = { node_instance_id, endpoint, allocation_id };
  if (standing.client_processes === null && (process === null || process === holder?.process)) return { judged };
  if (process === null) return { judged, client_processes: clearHolder(known, at) };
  const next = { process, endpoint: base_url, source };
  return { judged, client_processes: addHolder(known, next, at) };
}

const processRefusals: Partial<Record<ProcessVerdict, ContestReason>> = {
  refused: 'two_processes',
  too_many: 'many_processes',
};

/**
 * The default for a pool without `keep_name`: if a join token may take any name, the last process
 * to register keeps the name. Otherwise a live process keeps its name.
 */
const keepNamePolicyOf = (document: PoolDocument | undefined): KeepNamePolicy =>
  document?.compat?.keep_name ?? (document?.compat?.allow_takeover ? 'latest' : 'first');

/** The claimant gets its name back, so the finding is about the process that held the name. */
async function noteTakenBack(contest: Contest, services: ProtocolServices, at: Date): Promise<void> {
  const { node, endpoint, source = null, holder_source = null } = contest;
  const swapped = {
    node: { ...node, endpoint },
    endpoint: node.endpoint,
    source: holder_source,
    holder_source: source,
  };
  await recordContest(services.db, { ...contest, ...swapped }, services.clock, at);
}

async function findContest(
  standing: NameStanding,
  claimant: Claimant,
  at: Date,
  document: PoolDocument | undefined,
  services: ProtocolServices,
): Promise<ContestReason | null> {
  if (standing.protocol !== claimant.protocol) return isNameHeld(standing.status) ? 'name_held' : 'key_unproven';
  const former = standing.client_instance;
  const facts = {
    endpoint: normalizeUrl(standing.endpoint),
    claimed_endpoint: normalizeUrl(claimant.base_url),
    is_other_process: former !== null && claimant.client_instance !== null && former !== claimant.client_instance,
    is_beating: isBeating(standing, at),
    serves_tenant: standing.allocation_id !== null,
    lacks_credential: givesCredential[claimant.protocol],
    re_enrolled: standing.status === 'provisioning' && !standing.is_registered,
    allow_takeover: document?.compat?.allow_takeover === true,
  };
  const verdict = judgeRegistration(facts);
  const finalVerdict =
    verdict === 'ask_former' && standing.endpoint !== null
      ? judgeProbeAnswer(
          await services.probeFormerAddress(standing.endpoint, document?.probe, claimant.join_token_id),
          facts,
        )
      : verdict;
  // The pool gives the name to the last process that registered. Other verdicts stand, such as the
  // one that protects a holder with a tenant.
  if (finalVerdict === 'second_process' && keepNamePolicyOf(document) === 'latest' && !facts.lacks_credential)
    return null;
  return finalVerdict === 'restart' || finalVerdict === 'ask_former' ? null : finalVerdict;
}
