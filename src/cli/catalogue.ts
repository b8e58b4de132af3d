/** Every command, by its name and under its heading. One is loaded when it is named: most of what a start costs is loading. */
import type { MakeCommand } from './command.ts';

type Loading = () => Promise<MakeCommand>;

export const catalogue: { heading: string; commands: Record<string, Loading> }[] = [
  {
    heading: 'Machines up and down:',
    commands: {
      allocate: async () => (await import('./commands/allocate.ts')).makeAllocate,
      release: async () => (await import('./commands/release.ts')).makeRelease,
      watch: async () => (await import('./commands/watch.ts')).makeWatch,
    },
  },
  {
    heading: 'What there is, and what happened:',
    commands: {
      nodes: async () => (await import('./commands/nodes.ts')).makeNodes,
      node: async () => (await import('./commands/node.ts')).makeNode,
      allocations: async () => (await import('./commands/allocations.ts')).makeAllocations,
      allocation: async () => (await import('./commands/allocation.ts')).makeAllocation,
      operations: async () => (await import('./commands/operations.ts')).makeOperations,
      operation: async () => (await import('./commands/operation.ts')).makeOperation,
      explain: async () => (await import('./commands/explain.ts')).makeExplain,
      timeline: async () => (await import('./commands/timeline.ts')).makeTimeline,
      audit: async () => (await import('./commands/audit.ts')).makeAudit,
      logs: async () => (await import('./commands/logs.ts')).makeLogs,
      doctor: async () => (await import('./commands/doctor.ts')).makeDoctor,
      certificate: async () => (await import('./commands/certificate.ts')).makeCertificate,
      export: async () => (await import('./commands/export.ts')).makeExport,
      verify: async () => (await import('./commands/verify.ts')).makeVerify,
      bundle: async () => (await import('./commands/bundle.ts')).makeBundleCommand,
      diagnostics: async () => (await import('./commands/diagnostics.ts')).makeDiagnostics,
      sweeps: async () => (await import('./commands/sweeps.ts')).makeSweeps,
      boots: async () => (await import('./commands/boots.ts')).makeBoots,
      'what-if': async () => (await import('./commands/what-if.ts')).makeWhatIf,
    },
  },
  {
    heading: 'What you can do about it:',
    commands: {
      actions: async () => (await import('./commands/actions.ts')).makeActions,
      act: async () => (await import('./commands/act.ts')).makeAct,
      recover: async () => (await import('./commands/recover.ts')).makeRecover,
      brake: async () => (await import('./commands/brake.ts')).makeBrake,
      maintenance: async () => (await import('./commands/maintenance.ts')).makeMaintenance,
      budget: async () => (await import('./commands/budget.ts')).makeBudget,
      residue: async () => (await import('./commands/residue.ts')).makeResidue,
      drift: async () => (await import('./commands/drift.ts')).makeDrift,
      'verify-store': async () => (await import('./commands/verify-store.ts')).makeVerifyStore,
    },
  },
  {
    heading: 'Setting up:',
    commands: {
      pools: async () => (await import('./commands/pools.ts')).makePools,
      apply: async () => (await import('./commands/apply.ts')).makeApply,
      replay: async () => (await import('./commands/replay.ts')).makeReplay,
      tokens: async () => (await import('./commands/tokens.ts')).makeTokens,
      keys: async () => (await import('./commands/keys.ts')).makeKeys,
      sessions: async () => (await import('./commands/sessions.ts')).makeSessions,
      secrets: async () => (await import('./commands/secrets.ts')).makeSecrets,
      'join-token': async () => (await import('./commands/join-token.ts')).makeJoinToken,
      completion: async () => (await import('./commands/completion.ts')).makeCompletion,
    },
  },
  {
    heading: 'Programs:',
    commands: {
      serve: async () => (await import('./commands/elsewhere.ts')).makeServe,
      agent: async () => (await import('./commands/elsewhere.ts')).makeAgent,
      relay: async () => (await import('./commands/elsewhere.ts')).makeRelay,
    },
  },
];

const names = new Set(catalogue.flatMap(({ commands }) => Object.keys(commands)));

/** Completions name all the others. */
const namesAll = 'completion';

const needed = ([first = '']: readonly string[]): ReadonlySet<string> =>
  names.has(first) && first !== namesAll ? new Set([first]) : names;

export interface CommandGroup {
  heading: string;
  commands: MakeCommand[];
}

/**
 * What these words need: the command that they begin with, alone. Everything, where they begin otherwise: the help, and the
 * guess at what was meant, are made from all of them, and after a flag only commander knows which word is the command.
 */
export async function loadCommands(words: readonly string[]): Promise<CommandGroup[]> {
  const wanted = needed(words);
  const loading = catalogue.map(async ({ heading, commands }) => {
    const loads = Object.entries(commands).flatMap(([name, load]) => (wanted.has(name) ? [load()] : []));
    return { heading, commands: await Promise.all(loads) };
  });
  return Promise.all(loading);
}
