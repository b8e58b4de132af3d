/**
 * Holds the node back while the machine lacks what its pool requires: no command is started and `ready` is not claimed.
 * A miss is not the agent's end here, because the registered node has a deadline of its own and a person may put it right.
 */
import type { Clock } from '../../base/clock.ts';
import type { BootStages } from '../life/boot-stages.ts';
import type { Claims } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { ShellParts } from '../process/shell.ts';
import type { Prerequisite } from '../state/config.ts';
import type { Timing } from '../timing.ts';
import { checkPrerequisite, type Finding, type Findings } from './prerequisites.ts';

export interface GateParts {
  clock: Clock;
  claims: Claims;
  findings: Findings;
  stages: BootStages;
  shell: ShellParts;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Later starts ask for everything too, but are no part of the boot. */
  first_start: boolean;
  /** What was held back; called once, when everything is met for the first time. */
  begin(): Promise<void>;
}

export interface PrerequisiteGate {
  /** Opens before it resolves when nothing is left to be checked; otherwise it checks, until all are met. */
  require(prerequisites: Prerequisite[]): Promise<void>;
  done: Promise<void>;
}

const stageName = 'prerequisites';

export function prerequisiteGate(parts: GateParts): PrerequisiteGate {
  const { clock, claims, findings, stages, log, timing, signal } = parts;
  const rest = waker(clock, signal);
  let wanted: Prerequisite[] = [];
  /** While something is missing everything is asked for again, so that all are met at the same time. */
  let doubtful = false;
  let begun = false;
  let staged = !parts.first_start;
  let endStage = () => {};

  const unmet = () => wanted.filter((one) => doubtful || !findings.isMet(one));

  /** What the configuration required was a stage already, and is the greater part of it. */
  const beginStage = () => {
    if (staged || stages.all().some(({ name }) => name === stageName)) return;
    staged = true;
    stages.run(stageName, () => new Promise<void>((resolve) => (endStage = resolve)));
  };

  const open = async () => {
    doubtful = false;
    endStage();
    claims.hold(null);
    if (begun || signal.aborted) return;
    begun = true;
    await parts.begin();
  };

  const close = (missing: Finding[]) => {
    if (!doubtful) log.error('prerequisites are missing; the node waits for them', { missing: missing.map(shown) });
    doubtful = true;
    claims.hold(`prerequisites are missing: ${missing.map(shown).join(', ')}`);
  };

  /** How long to wait before the next round; null: until something else is required. */
  const round = async (): Promise<number | null> => {
    const asked = wanted;
    const missing: Finding[] = [];
    for (const one of unmet()) {
      const finding = await checkPrerequisite(parts, one);
      if (!finding) return null;
      findings.found(finding);
      if (!finding.ok) missing.push(finding);
    }
    if (asked !== wanted) return 0;
    findings.conclude(asked);
    if (missing.length > 0) {
      close(missing);
      return timing.prerequisite_again_ms;
    }
    await open();
    return null;
  };

  const run = async () => {
    await rest.rest(null);
    while (!signal.aborted) await rest.rest(await round());
  };

  return {
    async require(prerequisites) {
      wanted = prerequisites;
      if (unmet().length === 0) {
        findings.conclude(wanted);
        return open();
      }
      claims.hold('the prerequisites are being checked');
      beginStage();
      rest.wake();
    },
    done: run(),
  };
}

const shown = ({ name, how }: Finding) => `${name} (its check ${how})`;
