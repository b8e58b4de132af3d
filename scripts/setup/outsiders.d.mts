export type OutsiderName =
  | 'schemathesis'
  | 'toxiproxy'
  | 'promtool'
  | 'pgbouncer'
  | 'helm'
  | 'actionlint'
  | 'kubernetes-schemas'
  | 'moto'
  | 'agentfield-oldest'
  | 'cloud-init'
  | 'debian-root'
  | 'docker'
  | `postgresql-${14 | 15 | 16 | 17}`;

export interface Outsider {
  /** The installation directory. */
  place: string;
  python: string;
  env: Record<string, string>;
}

export function findOutsider(name: OutsiderName): Outsider | { missing: string };
