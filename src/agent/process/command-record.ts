/**
 * The record of the command's last run. With it a restarted agent finds the run, and can tell
 * whether the run belongs to this instance and to the current configuration. It holds no secrets.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../base/clock.ts';
import type { AgentConfig } from '../state/config.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { isFields, numberOf, textOf } from '../state/shape.ts';
import { createRetryingWriter } from '../state/write-later.ts';
import { type ProcessId, readBootId } from './process-table.ts';

export interface CommandRecord {
  /** The directory of the run, below the agent's directory. */
  run: string;
  /** The process group of the command; null until it was started. */
  group: number | null;
  shim: ProcessId;
  boot_id: string;
  /** The processes of the run have the tag of this instance. */
  node_instance_id: string | null;
  /**
   * Derived from the private key of the instance, so it differs if another instance started the
   * command. A machine that joins again keeps its key.
   */
  owner: string;
  /** Differs if the configuration of the command has changed since the start. */
  command_digest: string;
  /** Whether the command accepted work. */
  is_ready: boolean;
  /** Whether the agent ended the run itself, or has reported its end. */
  is_over: boolean;
}

export interface CommandRecords {
  /** Whether the command was started before, also by an agent of an earlier version. */
  exists(): boolean;
  /** Returns null if there is no run that this agent could adopt. */
  read(): CommandRecord | null;
  /**
   * The process group, also from the record of an earlier version. Null if there is none, or if the
   * machine has rebooted.
   */
  group(): number | null;
  /** Throws if the disk refuses it: a later agent could not find a command without a record. */
  write(record: CommandRecord): void;
  /** Changes the record if it is about this run. A failed write is repeated later. */
  update(run: string, change: Partial<CommandRecord>): void;
  /** Marks the run as over, so that no later agent adopts it. A failed write is repeated later. */
  markOver(): void;
  /** Returns a new name for a run. */
  createRunName(): string;
  directoryOf(run: string): string;
  /** Removes the files of all other runs. */
  removeOthers(run: string | null): void;
}

/** `onUnsaved` is called if the disk refuses a change, which is then kept and written later. */
export function commandRecords(
  agent_directory: string,
  clock: Clock = systemClock,
  onUnsaved: (error: unknown) => void = () => {},
): CommandRecords {
  const path = join(agent_directory, 'command.json');
  const runs = join(agent_directory, 'command');
  let unsaved: CommandRecord | null = null;
  const readStored = () => unsaved ?? readJsonFile(path);
  const read = () => recordFrom(readStored());
  const write = (record: CommandRecord) => {
    writeAtomically(path, JSON.stringify(record));
    unsaved = null;
  };
  const save = createRetryingWriter(clock, () => unsaved && write(unsaved), onUnsaved);
  const keep = (record: CommandRecord) => {
    unsaved = record;
    save();
  };
  return {
    exists: () => readStored() !== null,
    read,
    group() {
      const value = readStored();
      if (!isFields(value) || (textOf(value.boot_id) ?? readBootId()) !== readBootId()) return null;
      return numberOf(value.group);
    },
    write,
    update(run, changes) {
      const record = read();
      if (record?.run === run) keep({ ...record, ...changes });
    },
    markOver() {
      const record = read();
      if (record) keep({ ...record, is_over: true });
    },
    createRunName: () => randomUUID(),
    directoryOf: (run) => join(runs, run),
    removeOthers(run) {
      for (const name of namesIn(runs)) if (name !== run) rmSync(join(runs, name), { recursive: true, force: true });
    },
  };
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

const runNamePattern = /^[0-9a-f-]{36}$/;

function recordFrom(value: unknown): CommandRecord | null {
  if (!isFields(value) || !isFields(value.shim)) return null;
  const { run, boot_id, owner, command_digest } = value;
  const { pid, start } = value.shim;
  if (typeof run !== 'string' || !runNamePattern.test(run) || typeof pid !== 'number' || typeof start !== 'string')
    return null;
  if (typeof boot_id !== 'string' || typeof owner !== 'string' || typeof command_digest !== 'string') return null;
  return {
    run,
    group: numberOf(value.group),
    shim: { pid, start },
    boot_id,
    node_instance_id: textOf(value.node_instance_id),
    owner,
    command_digest,
    is_ready: value.is_ready === true,
    is_over: value.is_over === true,
  };
}

const keyedDigest = (private_key: string, value: unknown): string =>
  createHmac('sha256', private_key).update(JSON.stringify(value)).digest('hex');

export const ownerOf = (private_key: string): string => keyedDigest(private_key, 'owner');

/** Keyed, because a plain digest would let others guess the secrets in the environment. */
export const commandDigest = (private_key: string, { command, work_dir, env, secret_env }: AgentConfig): string =>
  keyedDigest(private_key, { command, work_dir, env, secret_env });
