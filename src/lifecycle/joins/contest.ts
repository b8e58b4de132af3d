/**
 * Decides whether a registration under a known name is a restart of the same machine, and lists the
 * reasons for a refusal.
 */
import { maxProcesses } from './duplicates.ts';

export const contestReasons = {
  key_unproven: 'it proved neither the credential nor the key of the machine',
  name_held: 'the machine of that name is live',
  second_process: 'the former process still runs',
  other_endpoint: 'the machine serves a tenant at another address',
  two_processes: 'two live processes use this name',
  many_processes: `more than ${maxProcesses} processes registered under this name within an hour`,
} as const;
export type ContestReason = keyof typeof contestReasons;

/** Whether the former address answered a probe; `unknown` if it could not be probed. */
export type ProbeAnswer = 'yes' | 'no' | 'unknown';

export interface ReturnFacts {
  /** The recorded address, and the address in the registration. */
  endpoint: string | null;
  claimed_endpoint: string | null;
  /** Both processes sent an id, and the ids differ. */
  is_other_process: boolean;
  /** The known machine's last heartbeat is younger than its stale time, and it said no goodbye. */
  is_beating: boolean;
  serves_tenant: boolean;
  /** The protocol issues credentials to machines, and this registration shows none. */
  lacks_credential: boolean;
  /** An operator allowed a new enrolment that has not happened yet. */
  re_enrolled: boolean;
  allow_takeover: boolean;
}

export type ReturnVerdict = 'restart' | 'ask_former' | 'key_unproven' | 'second_process' | 'other_endpoint';

/** `ask_former`: probe the former address, then call `judgeProbeAnswer`. */
export function judgeRegistration(facts: ReturnFacts): ReturnVerdict {
  if (facts.allow_takeover || facts.re_enrolled) return 'restart';
  // The machine has a credential, so its address proves nothing: anyone with a join token can send
  // that address.
  if (facts.serves_tenant && facts.lacks_credential) return 'key_unproven';
  if (facts.endpoint === facts.claimed_endpoint) {
    // Two processes cannot listen at one address. Without an address, only heartbeats show whether
    // the former process runs.
    return facts.endpoint === null && facts.is_other_process && facts.is_beating ? 'second_process' : 'restart';
  }
  if (facts.serves_tenant) return 'other_endpoint';
  return facts.endpoint === null ? judgeProbeAnswer('unknown', facts) : 'ask_former';
}

export function judgeProbeAnswer(
  answered: ProbeAnswer,
  { is_beating }: Pick<ReturnFacts, 'is_beating'>,
): ReturnVerdict {
  if (answered === 'unknown') return is_beating ? 'second_process' : 'restart';
  return answered === 'yes' ? 'second_process' : 'restart';
}

/** A contest ends after this long without another registration under the name. */
export const contestQuietSeconds = 86_400;
