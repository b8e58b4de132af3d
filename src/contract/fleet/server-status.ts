/** The state of the server itself, as the replica that answers sees it. */
import { type Static, Type } from 'typebox';
import { serverProblemCatalogue } from '../../lifecycle/findings/server-problems.ts';
import { nullable, strict, Timestamp } from '../primitives.ts';
import { SweepRun } from '../supervision/supervision.ts';
import { databaseStates, Overview } from './overview.ts';

export const logLevels = ['debug', 'info', 'warn'] as const;
export type LogLevel = (typeof logLevels)[number];

export const ServerProblem = Type.Object(
  {
    code: Type.Enum(Object.keys(serverProblemCatalogue)),
    title: Type.String(),
    says: Type.String(),
    remedy: Type.String(),
    owner_layer: Type.String({ description: 'Who has to act.' }),
    since: Timestamp,
    facts: Type.Record(Type.String(), Type.Unknown(), { description: 'The figures behind `says`.' }),
  },
  { $id: 'ServerProblem' },
);
export type ServerProblem = Static<typeof ServerProblem>;

const Use = Type.Object({ used: Type.Number(), limit: Type.Number() });

export const LogLevelState = Type.Object(
  {
    level: Type.String(),
    usual: Type.String({ description: 'The level that the server was started with.' }),
    until: nullable(Timestamp),
  },
  { $id: 'LogLevelState' },
);
export type LogLevelState = Static<typeof LogLevelState>;

export const LogLevelRequest = Type.Object(
  {
    level: Type.Enum([...logLevels]),
    for_seconds: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 86_400 })),
  },
  { ...strict, $id: 'LogLevelRequest' },
);

export const ServerStatus = Type.Object(
  {
    at: Timestamp,
    replica_id: Type.String(),
    version: Type.String(),
    node_version: Type.String(),
    started_at: Timestamp,
    replicas: Overview.properties.replicas,
    database: Type.Object({
      state: Type.Enum([...databaseStates, 'stopping']),
      detail: nullable(Type.String()),
      server_version: Type.String(),
      is_standby: Type.Boolean(),
      schema_version: Type.Integer(),
      bytes: Type.Number(),
      connections: nullable(
        Type.Object(
          { used: Type.Integer(), limit: Type.Integer() },
          { description: 'Connections of all programs; the limit leaves out those reserved for superusers.' },
        ),
      ),
      own_connections: Type.Object(
        { used: Type.Integer(), limit: Type.Integer() },
        { description: 'Connections of this replica; the limit is `--database-connections`.' },
      ),
    }),
    growth: nullable(
      Type.Object(
        {
          bytes_per_day: Type.Number(),
          bytes_per_node_day: nullable(Type.Number({ description: 'The same for each machine.' })),
          full_in_days: nullable(
            Type.Number({
              description:
                'When `disk` would be full at this rate. Null if the database is on another disk or does not grow.',
            }),
          ),
        },
        { description: 'How the database grew in the last week. Null until it has been measured for a day.' },
      ),
    ),
    tail_lag_seconds: Type.Number(),
    sweeps: Type.Array(SweepRun),
    disk: nullable(Type.Object({ free_bytes: Type.Number(), total_bytes: Type.Number() })),
    files: nullable(Use),
    heap: Use,
    certificate: nullable(Type.Object({ starts_at: Timestamp, ends_at: Timestamp })),
    backup: nullable(Type.Object({ last_at: nullable(Timestamp), due_at: Timestamp })),
    licences: nullable(
      Type.Object(
        {
          packages: Type.Integer(),
          counts: Type.Record(Type.String(), Type.Integer(), {
            description: 'Packages by licence, as SPDX expressions.',
          }),
          list: Type.String({ description: 'The file on the host of the server that lists every package.' }),
        },
        { description: 'Licences of the packages of this installation. Null if it has no list of them.' },
      ),
    ),
    log: LogLevelState,
    problems: Type.Array(ServerProblem, { description: 'Problems of this replica, oldest first.' }),
  },
  { $id: 'ServerStatus' },
);
export type ServerStatus = Static<typeof ServerStatus>;
