/**
 * Holds the node back while the machine lacks a prerequisite of its pool: the command does not
 * start and `ready` is not reported. The agent does not end, because the registered node has its
 * own deadline and a person may fix the machine.
 */
import type { Clock } from '../../base/clock.ts';
import type { BootStages } from '../life/boot-stages.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { ShellParts } from '../process/shell.ts';
import type { Prerequisite } from '../state/config.ts';
import type { Timing } from '../timing.ts';
import { checkPrerequisite, type Finding, type Findings } from './prerequisites.ts';

export interface GateParts {
  clock: Clock;
  report: SelfReport;
  findings: Findings;
  stages: BootStages;
  shell: ShellParts;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** Later starts check everything too, but are not part of the boot. */
  first_start: boolean;
  /** The work held back; called once, when all prerequisites are met for the first time. */
  begin(): Promise<void>;
}

export interface PrerequisiteGate {
  /** Opens before it resolves if nothing is left to check; otherwise checks until all are met. */
  require(prerequisites: Prerequisite[]): Promise<void>;
  done: Promise<void>;
}

const stageName = 'prerequisites';

export function prerequisiteGate(parts: GateParts): PrerequisiteGate {
  const { clock, report, findings, stages, log, timing, signal } = parts;
  const rest = waker(clock, signal);
  let wanted: Prerequisite[] = [];
  /** While one is missing, all are checked again, so that they are met at the same time. */
  let doubtful = false;
  let begun = false;
  let staged = !parts.first_start;
  let endStage = () => {};

  const unmet = () => wanted.filter((one) => doubtful || !findings.isMet(one));

  /** If the configuration required some, they have been a stage already. */
  const beginStage = () => {
    if (staged || stages.all().some(({ name }) => name === stageName)) return;
    staged = true;
    stages.run(stageName, () => new Promise<void>((resolve) => (endStage = resolve)));
  };

  const open = async () => {
    doubtful = false;
    endStage();
    report.hold(null);
    if (begun || signal.aborted) return;
    begun = true;
    await parts.begin();
  };

  const close = (missing: Finding[]) => {
    if (!doubtful) log.error('prerequisites are missing; the node waits for them', { missing: missing.map(shown) });
    doubtful = true;
    report.hold(`prerequisites are missing: ${missing.map(shown).join(', ')}`);
  };

  /** Returns how long to wait before the next checkAll; null: until the requirements change. */
  const checkAll = async (): Promise<number | null> => {
    const required = wanted;
    const missing: Finding[] = [];
    for (const one of unmet()) {
      const finding = await checkPrerequisite(parts, one);
      if (!finding) return null;
      findings.found(finding);
      if (!finding.ok) missing.push(finding);
    }
    if (required !== wanted) return 0;
    findings.conclude(required);
    if (missing.length > 0) {
      close(missing);
      return timing.prerequisite_again_ms;
    }
    await open();
    return null;
  };

  const run = async () => {
    await rest.rest(null);
    while (!signal.aborted) await rest.rest(await checkAll());
  };

  return {
    async require(prerequisites) {
      wanted = prerequisites;
      if (unmet().length === 0) {
        findings.conclude(wanted);
        return open();
      }
      report.hold('the prerequisites are being checked');
      beginStage();
      rest.wake();
    },
    done: run(),
  };
}

const shown = ({ name, how }: Finding) => `${name} (its check ${how})`;
