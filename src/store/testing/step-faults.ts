/** Checks the table of migration steps against the migrations, the releases and two schemas. */
import type { MigrationStep } from '../upgrade/migration-steps.ts';
import { type Release, releasesInWindow } from '../upgrade/releases.ts';

const versionOf = (name: string): number => Number.parseInt(name, 10);

function findStepFaults(name: string, step: MigrationStep, releases: readonly Release[]): string[] {
  const { breaks = [] } = step;
  if (step.step !== 'contract') {
    const isPlain = breaks.length === 0 && step.runs_from === undefined;
    return isPlain ? [] : [`${name} is no contract step, so it must have no runs_from and no breaks`];
  }
  if (step.runs_from === undefined) return [`${name} is a contract step without runs_from`];
  // Migrations of a release that is out cannot be changed any more.
  if (versionOf(name) <= (releases.at(-1)?.schema ?? 0)) return [];
  return releasesInWindow(releases).flatMap(({ version, schema, can_lose }) => [
    ...(schema < (step.runs_from ?? 0) ? [`${name} runs from ${step.runs_from}, and ${version} knows ${schema}`] : []),
    ...breaks.filter((each) => !can_lose.includes(each)).map((each) => `${name} breaks ${each}, which ${version} uses`),
  ]);
}

export function findFaults(
  names: readonly string[],
  steps: Readonly<Record<string, MigrationStep>>,
  releases: readonly Release[],
): string[] {
  return [
    ...names.filter((name) => !(name in steps)).map((name) => `${name} has no entry`),
    ...Object.keys(steps)
      .filter((name) => !names.includes(name))
      .map((name) => `${name} does not exist`),
    ...Object.entries(steps).flatMap(([name, step]) => findStepFaults(name, step, releases)),
  ];
}

interface Objects {
  all: Set<string>;
  /** Columns that every insert must name. */
  required: Set<string>;
  tables: Set<string>;
}

/** Parses the text of `dumpSchema`. Partitions come and go, so they do not count. */
function parseDump(dump: string): Objects {
  const all = new Set<string>();
  const required = new Set<string>();
  const tables = new Set<string>();
  let table = '';
  for (const line of dump.split('\n')) {
    const [first = '', second = '', third = ''] = line.trim().split(' ');
    if (line.startsWith('table ')) {
      table = third === 'of' ? '' : second;
      if (table) tables.add(table);
    } else if (line.startsWith('function ')) {
      all.add(`${second.split('(')[0]}()`);
    } else if (line.startsWith('  ') && table && isColumn(line)) {
      all.add(`${table}.${first}`);
      if (/ not null$/.test(line)) required.add(`${table}.${first}`);
    }
  }
  return { all, required, tables };
}

const isColumn = (line: string): boolean => !/^ {2}(constraint|index|unique index|partitioned by|with) /.test(line);

/** Lists what servers of the earlier schema can no longer rely on, in the notation of `breaks`. */
export function findBroken(before: string, after: string): string[] {
  const [old, present] = [parseDump(before), parseDump(after)];
  const goneTables = [...old.tables].filter((table) => !present.tables.has(table));
  const goneParts = [...old.all].filter(
    (name) => !present.all.has(name) && !goneTables.some((table) => name.startsWith(`${table}.`)),
  );
  const newlyRequired = [...present.required].filter(
    (name) => !old.required.has(name) && old.tables.has(name.slice(0, name.indexOf('.'))),
  );
  return [...goneTables, ...goneParts, ...newlyRequired.map((name) => `${name} required`)].sort();
}
