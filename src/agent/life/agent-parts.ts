/** Creates the parts of an agent, such as its files, log and workload, without starting them. */
import { join } from 'node:path';
import type { Clock } from '../../base/clock.ts';
import { otlpHeadersVariable } from '../../base/settings/otlp-headers.ts';
import { type ServerTime, serverTime } from '../connection/server-time.ts';
import { agentLog, type Log } from '../log.ts';
import { type CheckResults, createCheckResults } from '../prerequisites/prerequisites.ts';
import { createSecretRedactor } from '../process/known-secrets.ts';
import { instanceTag } from '../process/process-table.ts';
import type { ShellParts } from '../process/shell.ts';
import { type Workload, workload } from '../process/workload.ts';
import { type FactBox, openFactBox } from '../spool/fact-box.ts';
import { isSpool, openSpool, type Spool, seqAfterLoss } from '../spool/spool.ts';
import type { AgentConfig } from '../state/config.ts';
import { errorText } from '../state/shape.ts';
import { agentDirectory, openState, type StateFile } from '../state/state-file.ts';
import type { Timing } from '../timing.ts';
import { type BootStages, bootStages } from './boot-stages.ts';
import { createSelfReport, type SelfReport } from './report.ts';

export interface AgentSurroundings {
  clock: Clock;
  timing: Timing;
  env: NodeJS.ProcessEnv;
  /** Aborted when the agent should stop. */
  stop: AbortSignal;
  /** Whether the stop ends the command too. Otherwise the next agent adopts the command. */
  stopEndsCommand(): boolean;
  /** Program and arguments that run the agent's file. */
  agent_program: readonly string[];
  print(line: string): void;
  /** Registers a synchronous callback that runs whenever the process exits. */
  atExit(run: () => void): void;
}

export interface AgentParts {
  config: AgentConfig;
  clock: Clock;
  timing: Timing;
  state: StateFile;
  spool: Spool;
  facts: FactBox;
  time: ServerTime;
  log: Log;
  stages: BootStages;
  checkResults: CheckResults;
  report: SelfReport;
  work: Workload;
  shell: ShellParts;
}

export function agentParts(config: AgentConfig, surroundings: AgentSurroundings): AgentParts {
  const { clock, timing, env, print, agent_program } = surroundings;
  const state = openState(config);
  const directory = agentDirectory(config.dir);
  const spoolDirectory = join(directory, 'spool');
  const isSpoolLost = state.read().identity !== null && !isSpool(spoolDirectory);
  const spool = openSpool(spoolDirectory, clock, undefined, undefined, isSpoolLost ? seqAfterLoss(clock) : 1);
  const identityOrConfig = () => state.read().identity ?? config;
  const ids = () => {
    const { node_id, node_instance_id } = identityOrConfig();
    return { node_id, node_instance_id, correlation_id: config.correlation_id, workflow_id: config.workflow_id };
  };
  const childEnv = () => buildChildEnvironment(config, identityOrConfig(), env);
  const log = agentLog({ clock, spool, ids, print, redact: createSecretRedactor(childEnv(), config.secret_env) });
  const facts = openFactBox(directory, clock, (error) =>
    log.warn('the facts could not be stored; trying again', { detail: errorText(error) }),
  );
  if (isSpoolLost) log.warn('dropped an unknown number of lines: the spool that held them is gone');
  const time = serverTime(clock);
  const stages = bootStages(clock, state, time);
  const report = createSelfReport(stages.current);
  const { isCrowded } = spool;
  const shell = { clock, log, isCrowded, cwd: config.work_dir, env: childEnv, secret_env: config.secret_env };
  const shared = { config, clock, timing, state, facts, log, stages, report };
  const work = workload({ ...shared, spool, agent_program, env: childEnv });
  return { ...shared, spool, time, checkResults: createCheckResults(), work, shell };
}

const secretVariables = [
  'SLIPWAY_JOIN_TOKEN',
  'SLIPWAY_ENROLLMENT_TOKEN',
  'SLIPWAY_ADMIN_TOKEN',
  'SLIPWAY_TOKEN',
  otlpHeadersVariable,
];

interface KnownIds {
  node_id: string | null;
  node_instance_id: string | null;
}

/**
 * Builds the environment of the agent's child processes: the agent's own environment except
 * Slipway's secrets, then the pool's `env`, then the node's ids. Later entries win.
 */
function buildChildEnvironment(config: AgentConfig, ids: KnownIds, agentEnv: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const inheritedEntries = Object.entries(agentEnv).filter(([name]) => !secretVariables.includes(name));
  const idVariables = {
    [instanceTag]: ids.node_instance_id,
    SLIPWAY_NODE_ID: ids.node_id,
    SLIPWAY_NODE_NAME: config.name,
    SLIPWAY_CORRELATION_ID: config.correlation_id,
    SLIPWAY_WORKFLOW_ID: config.workflow_id,
  };
  const idEntries = Object.entries(idVariables).flatMap(([name, value]) =>
    value === null ? [] : [[name, value] as const],
  );
  return { ...Object.fromEntries(inheritedEntries), ...config.env, ...Object.fromEntries(idEntries) };
}
