/** What the machine must have before it may be ready: how one is asked for, and what the answers were. */
import type { PrerequisiteReport } from '../../contract/agent/agent.ts';
import { runShell, type ShellEnd, type ShellParts } from '../process/shell.ts';
import type { AgentConfig, Prerequisite } from '../state/config.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';

type Result = PrerequisiteReport['results'][number];

export interface Finding extends Prerequisite, ShellEnd {}

/** The control plane's word on them is newer than what the machine was launched with. */
export const requiredNow = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  state.read().requires ?? config.requires;

/** Those that whoever launched the machine knows of too, and learns of by the agent's end. */
export const requiredAtLaunch = (config: AgentConfig, state: StateFile): Prerequisite[] =>
  requiredNow(config, state).filter(({ name }) => config.requires.some((one) => one.name === name));

/** Null when the agent was told to stop meanwhile. */
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
  /** Whether this very check has said so since the agent started or became another instance. */
  isMet(prerequisite: Prerequisite): boolean;
  /** A new instance has to find, and to tell, everything anew. */
  forget(): void;
  /** All of these have been asked for. Told whole, because only the whole says whether the machine may be ready. */
  conclude(asked: Prerequisite[]): void;
  /** What the server does not know yet; `told` marks exactly that as known, not what was concluded since. */
  untold(): { results: Result[]; told(): void } | null;
  onConcluded(listener: () => void): void;
}

const most_results = 64;
const most_detail = 1024;

const resultOf = ({ name, ok, how, last_lines }: Finding): Result => {
  const said = last_lines.at(-1)?.trim();
  const detail = `its check ${how}${said ? `: ${said}` : ''}`.slice(0, most_detail).toWellFormed();
  return { name, ok, ...(ok ? {} : { detail }) };
};

/** What a check prints may differ every time without meaning anything else. */
const meaningOf = (found: Finding[]) => JSON.stringify(found.map(({ name, ok, how }) => [name, ok, how]));

export function findings(): Findings {
  const last = new Map<string, Finding>();
  const listeners: (() => void)[] = [];
  let meaning = meaningOf([]);
  let report: Result[] | null = null;
  return {
    found: (finding) => void last.set(finding.name, finding),
    isMet({ name, check }) {
      const known = last.get(name);
      return known?.ok === true && known.check === check;
    },
    forget() {
      last.clear();
      meaning = meaningOf([]);
      report = null;
    },
    conclude(asked) {
      const required = asked.flatMap(({ name }) => last.get(name) ?? []);
      const others = [...last.values()].filter((one) => !required.includes(one));
      const found = [...required, ...others].slice(0, most_results);
      if (meaningOf(found) === meaning) return;
      meaning = meaningOf(found);
      report = found.map(resultOf);
      for (const listener of listeners) listener();
    },
    untold() {
      const results = report;
      if (!results) return null;
      return {
        results,
        told() {
          if (report === results) report = null;
        },
      };
    },
    onConcluded: (listener) => void listeners.push(listener),
  };
}
