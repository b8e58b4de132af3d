/**
 * Holds the node back while the machine lacks a prerequisite of its pool: the command does not
 * start, and the agent does not report `ready`. The agent keeps running and checks again, because a
 * person may fix the machine before the node's deadline.
 */
import type { Clock } from '../../base/clock.ts';
import type { BootStages } from '../life/boot-stages.ts';
import type { SelfReport } from '../life/report.ts';
import { waker } from '../life/waker.ts';
import type { Log } from '../log.ts';
import type { ShellParts } from '../process/shell.ts';
import type { Prerequisite } from '../state/config.ts';
import type { Timing } from '../timing.ts';
import { type CheckResult, type CheckResults, checkPrerequisite } from './prerequisites.ts';

export interface GateParts {
  clock: Clock;
  report: SelfReport;
  checkResults: CheckResults;
  stages: BootStages;
  shell: ShellParts;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
  /** The checks are a boot stage only at the agent's first start. */
  is_first_start: boolean;
  /** Starts the work. Called once, when all prerequisites are met for the first time. */
  begin(): Promise<void>;
}

export interface PrerequisiteGate {
  /**
   * Sets the prerequisites. If all are known to be met, it starts the work before it resolves.
   * Otherwise the gate checks them until all are met.
   */
  require(prerequisites: Prerequisite[]): Promise<void>;
  done: Promise<void>;
}

const stageName = 'prerequisites';

export function prerequisiteGate(parts: GateParts): PrerequisiteGate {
  const { clock, report, checkResults, stages, log, timing, signal } = parts;
  const checkPause = waker(clock, signal);
  let required: Prerequisite[] = [];
  /** While one is missing, all are checked again, because all must be met at the same time. */
  let hasMissing = false;
  let hasBegun = false;
  /** The checks are a boot stage at most once. */
  let mayBeginStage = parts.is_first_start;
  let endStage = () => {};

  const listDue = () => required.filter((prerequisite) => hasMissing || !checkResults.isMet(prerequisite));

  /** Does nothing if the prerequisites of the launch configuration were a boot stage already. */
  const beginStage = () => {
    if (!mayBeginStage || stages.all().some(({ name }) => name === stageName)) return;
    mayBeginStage = false;
    stages.run(stageName, () => new Promise<void>((resolve) => (endStage = resolve)));
  };

  const open = async () => {
    hasMissing = false;
    endStage();
    report.withholdStatus(null);
    if (hasBegun || signal.aborted) return;
    hasBegun = true;
    await parts.begin();
  };

  const close = (missing: CheckResult[]) => {
    if (!hasMissing)
      log.error('prerequisites are missing; the node waits for them', { missing: missing.map(describe) });
    hasMissing = true;
    report.withholdStatus(`prerequisites are missing: ${missing.map(describe).join(', ')}`);
  };

  /** Returns the pause before the next check in ms. Null means until the prerequisites change. */
  const checkAll = async (): Promise<number | null> => {
    const checkedPrerequisites = required;
    const missing: CheckResult[] = [];
    for (const prerequisite of listDue()) {
      const result = await checkPrerequisite(parts, prerequisite);
      if (!result) return null;
      checkResults.record(result);
      if (!result.ok) missing.push(result);
    }
    // `require` was called during the checks, so check the new list at once.
    if (checkedPrerequisites !== required) return 0;
    checkResults.conclude(checkedPrerequisites);
    if (missing.length > 0) {
      close(missing);
      return timing.prerequisite_again_ms;
    }
    await open();
    return null;
  };

  const run = async () => {
    await checkPause.rest(null);
    while (!signal.aborted) await checkPause.rest(await checkAll());
  };

  return {
    async require(prerequisites) {
      required = prerequisites;
      if (listDue().length === 0) {
        checkResults.conclude(required);
        return open();
      }
      report.withholdStatus('the prerequisites are being checked');
      beginStage();
      checkPause.wake();
    },
    done: run(),
  };
}

const describe = ({ name, ending }: CheckResult) => `${name} (its check ${ending})`;
