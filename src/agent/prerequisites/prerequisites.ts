/**
 * Checks the prerequisites that a machine must meet before it may be ready, keeps the results, and
 * reports them to the control plane.
 */
import type { Clock } from '../../base/clock.ts';
import type { PrerequisiteReport } from '../../contract/agent/agent.ts';
import { describeFailure, isTransient } from '../connection/call-failure.ts';
import type { ControlPlane } from '../connection/control-plane.ts';
import type { Log } from '../log.ts';
import { runShell, type ShellEnd, type ShellParts } from '../process/shell.ts';
import { type ShipLoop, shipLoop } from '../spool/ship-loop.ts';
import type { AgentConfig, Prerequisite } from '../state/config.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';

type ReportedResult = PrerequisiteReport['results'][number];

export interface CheckResult extends Prerequisite, ShellEnd {}

/** Returns the control plane's list if there is one, because the launch configuration is older. */
export const listRequired = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  state.read().requires ?? config.requires;

/**
 * Returns the prerequisites that the launch configuration already contained. If one of them is
 * missing, the agent exits, and the driver reports that exit.
 */
export const listRequiredAtLaunch = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  listRequired(config, state).filter(({ name }) => config.requires.some((atLaunch) => atLaunch.name === name));

/** Returns null if the agent was stopped during the check. */
export async function checkPrerequisite(
  { shell, timing, signal }: { shell: ShellParts; timing: Timing; signal: AbortSignal },
  { name, check }: Prerequisite,
): Promise<CheckResult | null> {
  const timeout_ms = timing.prerequisite_timeout_ms;
  const end = await runShell(shell, { script: check, stream: 'setup', signal, timeout_ms });
  return signal.aborted ? null : { name, check, ...end };
}

export interface CheckResults {
  record(result: CheckResult): void;
  /** Whether this same check has passed since the agent started or became another instance. */
  isMet(prerequisite: Prerequisite): boolean;
  /** Removes all results, because a new instance must check and report everything again. */
  forget(): void;
  /**
   * Prepares one report after all of these were checked. A partial report could not show whether
   * the machine may be ready.
   */
  conclude(checked: Prerequisite[]): void;
  /** Returns the results to send. `markSent` applies to these results only, not to later ones. */
  unsent(): { results: ReportedResult[]; markSent(): void } | null;
  onConcluded(listener: () => void): void;
}

const max_results = 64;
const max_detail_length = 1024;

const reportedResultOf = ({ name, ok, ending, last_lines }: CheckResult): ReportedResult => {
  const lastLine = last_lines.at(-1)?.trim();
  const detail = `its check ${ending}${lastLine ? `: ${lastLine}` : ''}`.slice(0, max_detail_length).toWellFormed();
  return { name, ok, ...(ok ? {} : { detail }) };
};

/** Leaves out the output, which may differ at each run without changing the result. */
const toComparisonKey = (results: CheckResult[]) =>
  JSON.stringify(results.map(({ name, ok, ending }) => [name, ok, ending]));

export function createCheckResults(): CheckResults {
  const lastByName = new Map<string, CheckResult>();
  const listeners: (() => void)[] = [];
  let reportedKey = toComparisonKey([]);
  let report: ReportedResult[] | null = null;
  return {
    record: (result) => void lastByName.set(result.name, result),
    isMet({ name, check }) {
      const result = lastByName.get(name);
      return result?.ok === true && result.check === check;
    },
    forget() {
      lastByName.clear();
      reportedKey = toComparisonKey([]);
      report = null;
    },
    conclude(checked) {
      const required = checked.flatMap(({ name }) => lastByName.get(name) ?? []);
      const others = [...lastByName.values()].filter((result) => !required.includes(result));
      const reported = [...required, ...others].slice(0, max_results);
      if (toComparisonKey(reported) === reportedKey) return;
      reportedKey = toComparisonKey(reported);
      report = reported.map(reportedResultOf);
      for (const listener of listeners) listener();
    },
    unsent() {
      const results = report;
      if (!results) return null;
      return {
        results,
        markSent() {
          if (report === results) report = null;
        },
      };
    },
    onConcluded: (listener) => void listeners.push(listener),
  };
}

interface PrerequisiteShipperParts {
  clock: Clock;
  checkResults: CheckResults;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

/** Reports met and missing prerequisites as soon as the control plane can be reached. */
export function prerequisiteShipper(parts: PrerequisiteShipperParts): ShipLoop {
  const { clock, checkResults, server, log, timing, signal } = parts;
  const loop = shipLoop({
    clock,
    signal,
    batch_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const unsent = checkResults.unsent();
      if (!unsent) return 'empty';
      const { results, markSent } = unsent;
      const answer = await server.prerequisites(results, signal);
      if (answer.ok) {
        markSent();
        return 'more';
      }
      // An older control plane does not have this endpoint; heartbeats show that the node waits.
      if (!isTransient(answer.failure) && answer.failure.status !== 401) {
        log.warn('the server refuses the prerequisite report', { failure: describeFailure(answer.failure), results });
        markSent();
      }
      return answer.failure;
    },
  });
  checkResults.onConcluded(loop.wake);
  return loop;
}
