/**
 * The prerequisites that a machine must meet before it may be ready: how each is checked, and the
 * findings.
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

type Result = PrerequisiteReport['results'][number];

export interface Finding extends Prerequisite, ShellEnd {}

/** The control plane's list is newer than the one in the launch configuration. */
export const requiredNow = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  state.read().requires ?? config.requires;

/**
 * Those also known to the driver that launched the machine, which learns of a miss by the agent's
 * exit.
 */
export const requiredAtLaunch = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  requiredNow(config, state).filter(({ name }) => config.requires.some((one) => one.name === name));

/** Returns null if the agent was stopped meanwhile. */
export async function checkPrerequisite(
  { shell, timing, signal }: { shell: ShellParts; timing: Timing; signal: AbortSignal },
  { name, check }: Prerequisite,
): Promise<Finding | null> {
  const timeout_ms = timing.prerequisite_timeout_ms;
  const end = await runShell(shell, { script: check, stream: 'setup', signal, timeout_ms });
  return signal.aborted ? null : { name, check, ...end };
}

export interface Findings {
  found(finding: Finding): void;
  /** Whether this very check has passed since the agent started or became another instance. */
  isMet(prerequisite: Prerequisite): boolean;
  /** A new instance has to check and report everything again. */
  forget(): void;
  /**
   * All of these were checked. Reported together, because only all of them decide whether the
   * machine may be ready.
   */
  conclude(checked: Prerequisite[]): void;
  /** The results that the server does not have; `markSent` marks exactly these, not later ones. */
  unsent(): { results: Result[]; markSent(): void } | null;
  onConcluded(listener: () => void): void;
}

const max_results = 64;
const max_detail = 1024;

const resultOf = ({ name, ok, how, last_lines }: Finding): Result => {
  const lastLine = last_lines.at(-1)?.trim();
  const detail = `its check ${how}${lastLine ? `: ${lastLine}` : ''}`.slice(0, max_detail).toWellFormed();
  return { name, ok, ...(ok ? {} : { detail }) };
};

/** Output may differ at each run without changing the finding. */
const keyOf = (found: Finding[]) => JSON.stringify(found.map(({ name, ok, how }) => [name, ok, how]));

export function findings(): Findings {
  const last = new Map<string, Finding>();
  const listeners: (() => void)[] = [];
  let reportedKey = keyOf([]);
  let report: Result[] | null = null;
  return {
    found: (finding) => void last.set(finding.name, finding),
    isMet({ name, check }) {
      const known = last.get(name);
      return known?.ok === true && known.check === check;
    },
    forget() {
      last.clear();
      reportedKey = keyOf([]);
      report = null;
    },
    conclude(checked) {
      const required = checked.flatMap(({ name }) => last.get(name) ?? []);
      const others = [...last.values()].filter((one) => !required.includes(one));
      const found = [...required, ...others].slice(0, max_results);
      if (keyOf(found) === reportedKey) return;
      reportedKey = keyOf(found);
      report = found.map(resultOf);
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
  findings: Findings;
  server: ControlPlane;
  log: Log;
  timing: Timing;
  signal: AbortSignal;
}

/** Reports met and missing prerequisites to the control plane, as soon as it can be reached. */
export function prerequisiteShipper(parts: PrerequisiteShipperParts): ShipLoop {
  const { clock, findings, server, log, timing, signal } = parts;
  const loop = shipLoop({
    clock,
    signal,
    batch_ms: 0,
    retry: timing.ship_retry,
    async ship() {
      const unsent = findings.unsent();
      if (!unsent) return 'empty';
      const { results, markSent } = unsent;
      const answer = await server.prerequisites(results, signal);
      if (answer.ok) {
        markSent();
        return 'more';
      }
      // An older control plane does not know the call; it learns what it needs from heartbeats.
      if (!isTransient(answer.failure) && answer.failure.status !== 401) {
        log.warn('the server does not take what was found', { failure: describeFailure(answer.failure), results });
        markSent();
      }
      return answer.failure;
    },
  });
  findings.onConcluded(loop.wake);
  return loop;
}
