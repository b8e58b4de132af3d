/**
 * The agent's directory. It holds the state that must survive a kill (identity, credential and
 * progress), and the lock that allows one agent per directory.
 */
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, pause } from '../../base/clock.ts';
import type { TaskKey } from '../../contract/agent/agent.ts';
import { isTaskKeys } from '../../contract/agent/task-key-chain.ts';
import type { BootStage } from '../../contract/node.ts';
import { newKeyPair } from '../connection/keys.ts';
import { readProcess } from '../process/process-table.ts';
import { type AgentConfig, isPrerequisites, type Prerequisite } from './config.ts';
import { readJsonFile, writeDurably } from './durable-file.ts';
import { errorCode, type Fields, isFields, numberOf, textOf } from './shape.ts';

export interface Identity {
  node_id: string;
  node_instance_id: string;
  credential: string;
  /** Null if the credential never expires; undefined if the server is too old to send an expiry. */
  credential_expires_at?: string | null;
}

export interface AgentState {
  identity: Identity | null;
  /** Digest of the token that the agent enrolled with; another token means a new enrolment. */
  enrolled_with: string | null;
  /**
   * An Ed25519 key in PKCS 8 DER, base64. Created before the first registration, so that a repeated
   * registration uses the same key.
   */
  private_key: string;
  task_keys: TaskKey[];
  /** How often to fetch task keys, as the server last said; null if it does not rotate them. */
  task_key_refresh_seconds: number | null;
  /** The prerequisites from the last registration's reply; null if it named none. */
  requires: Prerequisite[] | null;
  /** The registration deadline that the server sent last; null if it sent none. */
  deadline_at: string | null;
  setup_done: boolean;
  /** A release stopped the command. The command stays stopped even if the agent restarts. */
  command_stopped: boolean;
  /** The last release that was proven clean here. A restored server asks for it. */
  last_release: string | null;
  command_restarts: number;
  boot_stages: BootStage[];
  /** How many boot stages the server has received. */
  boot_stages_sent: number;
}

export interface StateFile {
  read(): Readonly<AgentState>;
  /** Returns after the change is on disk. */
  update(change: Partial<AgentState>): void;
  /** Changes the state in memory; the next `update` writes it. For changes that may be lost. */
  note(change: Partial<AgentState>): void;
}

const newState = (): AgentState => ({
  identity: null,
  enrolled_with: null,
  private_key: newKeyPair(),
  task_keys: [],
  task_key_refresh_seconds: null,
  requires: null,
  deadline_at: null,
  setup_done: false,
  command_stopped: false,
  last_release: null,
  command_restarts: 0,
  boot_stages: [],
  boot_stages_sent: 0,
});

export const agentDirectory = (dir: string) => join(dir, '.agent');

export function makeAgentDirectory(dir: string): string {
  const directory = agentDirectory(dir);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  // The umask or an earlier chmod may have given others access.
  chmodSync(directory, 0o700);
  return directory;
}

export const tokenDigest = (token: string) => createHash('sha256').update(token).digest('hex');

/** Continues the stored state, or starts a new one if the configuration is for another instance. */
export function openState(config: AgentConfig): StateFile {
  const path = join(makeAgentDirectory(config.dir), 'state.json');
  const storedState = stateFrom(readJsonFile(path));
  let state = storedState && belongsTo(storedState, config) ? storedState : newState();
  const write = () => writeDurably(path, JSON.stringify(state));
  if (state !== storedState) write();
  return {
    read: () => state,
    note(change) {
      state = { ...state, ...change };
    },
    update(change) {
      state = { ...state, ...change };
      write();
    },
  };
}

/** Reads the stored state without creating one; null if there is none. */
export const readStoredState = (dir: string): Readonly<AgentState> | null =>
  stateFrom(readJsonFile(join(agentDirectory(dir), 'state.json')));

function belongsTo({ identity, enrolled_with }: AgentState, config: AgentConfig): boolean {
  if (!identity) return true;
  if (config.node_instance_id !== null && config.node_instance_id !== identity.node_instance_id) return false;
  // A joined machine may get a new join token and stays the same node. An enrolment token is valid
  // for one enrolment, so another token means another instance.
  return config.enrollment_token === null || tokenDigest(config.enrollment_token) === enrolled_with;
}

function stateFrom(value: unknown): AgentState | null {
  if (!isFields(value) || typeof value.private_key !== 'string') return null;
  return {
    identity: identityFrom(value.identity),
    enrolled_with: textOf(value.enrolled_with),
    private_key: value.private_key,
    task_keys: isTaskKeys(value.task_keys) ? value.task_keys : [],
    task_key_refresh_seconds: numberOf(value.task_key_refresh_seconds),
    requires: isPrerequisites(value.requires) ? value.requires : null,
    deadline_at: textOf(value.deadline_at),
    setup_done: value.setup_done === true,
    command_stopped: value.command_stopped === true,
    last_release: textOf(value.last_release),
    command_restarts: numberOf(value.command_restarts) ?? 0,
    boot_stages: Array.isArray(value.boot_stages) ? value.boot_stages.filter(isStage) : [],
    boot_stages_sent: numberOf(value.boot_stages_sent) ?? 0,
  };
}

function identityFrom(value: unknown): Identity | null {
  if (!isFields(value)) return null;
  const { node_id, node_instance_id, credential }: Fields = value;
  if (typeof node_id !== 'string' || typeof node_instance_id !== 'string' || typeof credential !== 'string')
    return null;
  const { credential_expires_at } = value;
  return {
    node_id,
    node_instance_id,
    credential,
    ...(credential_expires_at === null || typeof credential_expires_at === 'string' ? { credential_expires_at } : {}),
  };
}

const isStage = (value: unknown): value is BootStage =>
  isFields(value) && typeof value.name === 'string' && typeof value.seconds === 'number';

/**
 * Returns null if this process now holds the lock, or else the pid of the agent that holds it.
 * Without the lock, two agents would assign the same log line numbers. The lock of a process that
 * has ended does not count.
 */
export function lockDirectory(agent_directory: string): number | null {
  const path = join(agent_directory, 'agent.pid');
  const ownLock = JSON.stringify({ pid: process.pid, start: startTimeOf(process.pid) });
  for (;;) {
    try {
      writeFileSync(path, ownLock, { flag: 'wx', mode: 0o600 });
      return null;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
    const holder = findLiveHolder(path);
    if (holder !== null) return holder;
    rmSync(path, { force: true });
  }
}

/** A killed agent holds its lock until the kernel has freed its memory. */
const maxLockWaitMs = 3_000;
const lockPollMs = 50;

/** Like `lockDirectory`, but waits a moment for a holder that is just ending. */
export async function waitForLock(agent_directory: string, clock: Clock): Promise<number | null> {
  const giveUpMs = clock.monotonicMs() + maxLockWaitMs;
  for (;;) {
    const holder = lockDirectory(agent_directory);
    if (holder === null || clock.monotonicMs() >= giveUpMs) return holder;
    await pause(clock, lockPollMs);
  }
}

export function unlockDirectory(agent_directory: string): void {
  const path = join(agent_directory, 'agent.pid');
  const ownLock = JSON.stringify({ pid: process.pid, start: startTimeOf(process.pid) });
  if (readFileSync(path, 'utf8') === ownLock) rmSync(path, { force: true });
}

/** Returns the start time, or null if the process has ended or is a zombie. */
function startTimeOf(pid: number): string | null {
  const row = readProcess(pid);
  return row === null || row.state === 'Z' || row.state === 'X' ? null : row.start;
}

function findLiveHolder(path: string): number | null {
  const holder = readJsonFile(path);
  if (!isFields(holder) || typeof holder.pid !== 'number' || holder.pid === process.pid) return null;
  if (process.platform === 'linux') return startTimeOf(holder.pid) === holder.start ? holder.pid : null;
  try {
    process.kill(holder.pid, 0);
    return holder.pid;
  } catch (error) {
    if (errorCode(error) === 'ESRCH') return null;
    throw error;
  }
}
