/** Renders the Helm chart, and reads what the tests need from the manifests. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';

const chart = fileURLToPath(new URL('../../../packaging/helm/slipway/', import.meta.url));

export interface Probe {
  httpGet: { path: string; port: string; scheme: string };
  periodSeconds: number;
  failureThreshold: number;
}

export interface Container {
  image: string;
  command?: string[];
  args: string[];
  env: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string; key: string } } }[];
  ports: { name: string; containerPort: number }[];
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[];
  securityContext: object;
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
}

interface Selector {
  matchLabels: Record<string, string>;
}

export interface Manifest {
  kind: string;
  metadata: { name: string; labels: Record<string, string> };
  data?: Record<string, string>;
  spec: {
    replicas: number;
    storageClassName?: string;
    resources?: object;
    strategy: object;
    type?: string;
    selector: Selector | Record<string, string>;
    podSelector: Selector;
    ports: { name: string; targetPort: string }[];
    ingress: { ports: { port: string }[]; from?: object[] }[];
    endpoints: { port: string; scheme: string; path: string; relabelings: object[]; authorization: object }[];
    template: {
      metadata: { labels: Record<string, string> };
      spec: {
        automountServiceAccountToken: boolean;
        terminationGracePeriodSeconds: number;
        securityContext: { fsGroup: number; runAsUser?: number };
        initContainers?: Container[];
        containers: [Container];
        volumes: {
          name: string;
          emptyDir?: object;
          persistentVolumeClaim?: object;
          secret?: { secretName: string; items?: object[] };
        }[];
      };
    };
  };
}

export const valueSets = ['embedded', 'external', 'everything', 'numeric'] as const;
export type ValueSet = (typeof valueSets)[number];
/** A release may have a number as its name. */
export const releaseOf = (valueSet: ValueSet): string => (valueSet === 'numeric' ? '7' : 'release');

/** The oldest version that the chart accepts, and the newest with a schema. */
export const kubernetesVersions = ['1.30.0', '1.37.0'] as const;

export function helmAt(place: string) {
  const helm = (command: string[], valueSet: ValueSet, settings: readonly string[] = []) =>
    spawnSync(
      join(place, 'helm'),
      [
        ...command,
        chart,
        ...['--kube-version', kubernetesVersions[1]],
        ...['--values', join(chart, 'ci', `${valueSet}-values.yaml`)],
        ...settings.flatMap((setting) => ['--set', setting]),
      ],
      { encoding: 'utf8' },
    );
  return {
    lint: (valueSet: ValueSet) => helm(['lint', '--strict'], valueSet),
    template: (valueSet: ValueSet, settings?: readonly string[]) =>
      helm(['template', releaseOf(valueSet)], valueSet, settings),
    render(valueSet: ValueSet, settings?: readonly string[]) {
      const { status, stdout, stderr } = helm(['template', releaseOf(valueSet)], valueSet, settings);
      if (status !== 0) throw new Error(stderr);
      const manifests = parseAllDocuments(stdout).map((each) => each.toJS() as Manifest);
      const find = (kind: string) => manifests.find((each) => each.kind === kind);
      const deployment = find('Deployment') as Manifest;
      const pod = deployment.spec.template;
      const [server] = pod.spec.containers;
      return { text: stdout, manifests, find, deployment, pod, server };
    },
  };
}
