/** Lists every command by heading. Each command loads on demand, to keep start-up fast. */
import type { MakeCommand } from './command.ts';

type LoadCommand = () => Promise<MakeCommand>;

export const catalogue: { heading: string; commands: Record<string, LoadCommand> }[] = [
  {
    heading: 'Bring machines up and down:',
    commands: {
      allocate: async () => (await import('./commands/allocations/allocate.ts')).makeAllocate,
      release: async () => (await import('./commands/allocations/release.ts')).makeRelease,
      watch: async () => (await import('./commands/machines/watch.ts')).makeWatch,
    },
  },
  {
    heading: 'Inspect:',
    commands: {
      nodes: async () => (await import('./commands/machines/nodes.ts')).makeNodes,
      node: async () => (await import('./commands/machines/node.ts')).makeNode,
      allocations: async () => (await import('./commands/allocations/allocations.ts')).makeAllocations,
      allocation: async () => (await import('./commands/allocations/allocation.ts')).makeAllocation,
      operations: async () => (await import('./commands/allocations/operations.ts')).makeOperations,
      operation: async () => (await import('./commands/allocations/operation.ts')).makeOperation,
      explain: async () => (await import('./commands/machines/explain.ts')).makeExplain,
      timeline: async () => (await import('./commands/machines/timeline.ts')).makeTimeline,
      audit: async () => (await import('./commands/evidence/audit.ts')).makeAudit,
      logs: async () => (await import('./commands/machines/logs.ts')).makeLogs,
      doctor: async () => (await import('./commands/machines/doctor.ts')).makeDoctor,
      certificate: async () => (await import('./commands/allocations/certificate.ts')).makeCertificate,
      export: async () => (await import('./commands/evidence/export.ts')).makeExport,
      verify: async () => (await import('./commands/evidence/verify.ts')).makeVerify,
      bundle: async () => (await import('./commands/evidence/bundle.ts')).makeBundleCommand,
      diagnostics: async () => (await import('./commands/machines/diagnostics.ts')).makeDiagnostics,
      restoration: async () => (await import('./commands/server/restoration.ts')).makeRestoration,
      status: async () => (await import('./commands/server/status.ts')).makeStatus,
      sweeps: async () => (await import('./commands/supervision/sweeps.ts')).makeSweeps,
      boots: async () => (await import('./commands/pools/boots.ts')).makeBoots,
      'what-if': async () => (await import('./commands/pools/what-if.ts')).makeWhatIf,
    },
  },
  {
    heading: 'Act:',
    commands: {
      actions: async () => (await import('./commands/machines/actions.ts')).makeActions,
      act: async () => (await import('./commands/machines/act.ts')).makeAct,
      recover: async () => (await import('./commands/machines/recover.ts')).makeRecover,
      brake: async () => (await import('./commands/supervision/brake.ts')).makeBrake,
      maintenance: async () => (await import('./commands/supervision/maintenance.ts')).makeMaintenance,
      budget: async () => (await import('./commands/pools/budget.ts')).makeBudget,
      residue: async () => (await import('./commands/supervision/residue.ts')).makeResidue,
      drift: async () => (await import('./commands/supervision/drift.ts')).makeDrift,
      'verify-store': async () => (await import('./commands/evidence/verify-store.ts')).makeVerifyStore,
    },
  },
  {
    heading: 'Set up:',
    commands: {
      pools: async () => (await import('./commands/pools/pools.ts')).makePools,
      apply: async () => (await import('./commands/pools/apply.ts')).makeApply,
      replay: async () => (await import('./commands/pools/replay.ts')).makeReplay,
      tokens: async () => (await import('./commands/security/tokens.ts')).makeTokens,
      keys: async () => (await import('./commands/security/keys.ts')).makeKeys,
      sessions: async () => (await import('./commands/security/sessions.ts')).makeSessions,
      secrets: async () => (await import('./commands/security/secrets.ts')).makeSecrets,
      'log-level': async () => (await import('./commands/server/log-level.ts')).makeLogLevel,
      'join-token': async () => (await import('./commands/security/join-token.ts')).makeJoinToken,
      completion: async () => (await import('./commands/local/completion.ts')).makeCompletion,
    },
  },
  {
    heading: 'Programs:',
    commands: {
      serve: async () => (await import('./commands/local/programs.ts')).makeServe,
      agent: async () => (await import('./commands/local/programs.ts')).makeAgent,
      relay: async () => (await import('./commands/local/programs.ts')).makeRelay,
      upgrade: async () => (await import('./commands/local/programs.ts')).makeUpgrade,
      admin: async () => (await import('./commands/local/programs.ts')).makeAdmin,
      backup: async () => (await import('./commands/local/programs.ts')).makeBackup,
      restore: async () => (await import('./commands/local/programs.ts')).makeRestore,
      'move-database': async () => (await import('./commands/local/programs.ts')).makeMoveDatabase,
    },
  },
];

const names = new Set(catalogue.flatMap(({ commands }) => Object.keys(commands)));

/** Completion scripts list every command, so this command loads them all. */
const completionCommand = 'completion';

const selectNames = ([first = '']: readonly string[]): ReadonlySet<string> =>
  names.has(first) && first !== completionCommand ? new Set([first]) : names;

export interface CommandGroup {
  heading: string;
  commands: MakeCommand[];
}

/**
 * Loads only the command that the first word names, if any. Otherwise loads all: help and
 * "did you mean" need them, and after a flag only commander can decide which word is the command.
 */
export async function loadCommands(words: readonly string[]): Promise<CommandGroup[]> {
  const wanted = selectNames(words);
  const loading = catalogue.map(async ({ heading, commands }) => {
    const loads = Object.entries(commands).flatMap(([name, load]) => (wanted.has(name) ? [load()] : []));
    return { heading, commands: await Promise.all(loads) };
  });
  return Promise.all(loading);
}
