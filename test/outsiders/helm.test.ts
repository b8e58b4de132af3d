/**
 * helm renders our chart for four sets of values. The manifests fit the schemas of Kubernetes, and
 * the server accepts the flags and variables in them.
 */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { applets } from '../../packaging/build/image.ts';
import { readSettings, serverFlags } from '../../src/base/settings/settings.ts';
import { routes } from '../../src/contract/routes.ts';
import { parseServerFile } from '../../src/contract/server-file.ts';
import { image } from './support/containerfile.ts';
import { helmAt, kubernetesVersions, type Manifest, valueSets } from './support/helm-chart.ts';
import { share, withOutsider } from './support/outsider.ts';

/** The embedded database gets 30 s to stop, and then 10 s to stop at once. */
const longestStopSeconds = 40;

const realVariables = [
  ...Object.keys(serverFlags).map((flag) => `SLIPWAY_${flag.replaceAll('-', '_').toUpperCase()}`),
  'SLIPWAY_ADMIN_TOKEN',
  'HOME',
];

/** Commands of the image that the chart may name; umask is part of the shell. */
const knownCommands = ['/bin/sh', 'umask', ...applets];

withOutsider('helm', ({ place }) => {
  const chart = helmAt(place);

  describe.each(valueSets)('the %s values', (valueSet) => {
    const { find, pod, server, manifests } = chart.render(valueSet);
    const secrets = Object.fromEntries(
      server.env.map(({ name, value }) => [
        name,
        value ??
          (name.endsWith('_DATABASE_URL') ? 'postgres://slipway:hidden@db/slipway' : 'a-secret-that-the-cluster-holds'),
      ]),
    );

    it('pass helm lint', () => {
      const { status, stdout } = chart.lint(valueSet);
      expect(stdout).toContain('0 chart(s) failed');
      expect(status).toBe(0);
    });

    it('lead to flags and variables that the server accepts', () => {
      // Without a command the entrypoint of the image runs, with tini as the first process.
      expect(server.command).toBeUndefined();
      const [command, ...flags] = server.args;
      expect(command).toBe('serve');
      const settings = readSettings(flags, secrets);
      expect(settings).toMatchObject({ host: '0.0.0.0', port: 7070, data_dir: '/var/lib/slipway' });
      expect(settings.public_url).toMatch(/^https:\/\/slipway\.example/);
      expect(server.env.map(({ name }) => name).filter((name) => !realVariables.includes(name))).toEqual([]);
      expect(settings.database_url !== null).toBe(valueSet === 'external' || valueSet === 'everything');
      expect(settings.key_file !== null).toBe(valueSet !== 'embedded');
    });

    it('mount every file that a flag or variable names, and write only to volumes', () => {
      const mounts = [...(pod.spec.initContainers ?? []), server].flatMap(({ volumeMounts }) => volumeMounts);
      const volumes = pod.spec.volumes.map(({ name }) => name);
      expect(mounts.filter(({ name }) => !volumes.includes(name))).toEqual([]);
      expect(volumes.filter((name) => !mounts.some((mount) => mount.name === name))).toEqual([]);
      const variables = server.env.map(({ name, value = '' }) => `${name}=${value}`);
      const namedPaths = [...server.args, ...variables].flatMap((each) => /=(\/.*)/.exec(each)?.[1] ?? []);
      const paths = server.volumeMounts.map(({ mountPath }) => mountPath);
      expect(
        namedPaths.filter((path) => !paths.some((mount) => path === mount || path.startsWith(`${mount}/`))),
      ).toEqual([]);
      const writable = server.volumeMounts.filter(({ readOnly }) => !readOnly).map(({ mountPath }) => mountPath);
      expect(writable).toEqual(['/var/lib/slipway', '/tmp']);
    });

    it('run the image of the release with its own user, paths, port and entrypoint', () => {
      const flag = (name: string) => server.args.find((arg) => arg.startsWith(`--${name}=`))?.split('=')[1];
      const [uid, gid] = image.user.split(':').map(Number);
      const { fsGroup, runAsUser = uid } = pod.spec.securityContext;
      // The numeric values choose an account of their own.
      if (valueSet !== 'numeric') expect([runAsUser, fsGroup]).toEqual([uid, gid]);
      expect(uid).toBeGreaterThan(0);
      expect(server.args[0]).toBe(image.command[0]);
      expect(image.entrypoint.at(-1)).toMatch(/\/slipway$/);
      expect(image.stopSignal).toBe('SIGTERM');
      expect(server.ports[0]?.containerPort).toBe(image.port);
      expect(server.volumeMounts.find(({ name }) => name === 'data')?.mountPath).toBe(image.volume);
      expect([flag('data-dir'), flag('nodes-dir'), flag('host')]).toEqual(
        ['DATA_DIR', 'NODES_DIR', 'HOST'].map((name) => image.env[`SLIPWAY_${name}`]),
      );
      expect(server.env.find(({ name }) => name === 'HOME')?.value).toBe(image.env.HOME);
      expect(server.livenessProbe.httpGet.path).toBe(image.healthPath);
      const [shell, , script = ''] = pod.spec.initContainers?.[0]?.command ?? ['/bin/sh'];
      const programs = [...script.matchAll(/(?:^|; )(\w+)/g)].map(([, name]) => name);
      expect([shell, ...programs].filter((name) => !knownCommands.includes(`${name}`))).toEqual([]);
    });

    it('refer to secrets and contain none', () => {
      expect(find('Secret')).toBeUndefined();
      const literalVariables = server.env.filter(({ value }) => value !== undefined).map(({ name }) => name);
      expect(literalVariables.filter((name) => !['HOME', 'SLIPWAY_KEY_FILE'].includes(name))).toEqual([]);
    });

    it('meet the restricted Pod Security Standard', () => {
      expect(pod.spec.automountServiceAccountToken).toBe(false);
      expect(pod.spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      });
      for (const { securityContext } of [...(pod.spec.initContainers ?? []), server])
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        });
    });

    it('probe addresses that the server has, at a port that the container names', () => {
      const scheme = server.args.some((arg) => arg.startsWith('--tls-cert')) ? 'https' : 'http';
      expect(server.ports).toEqual([{ name: scheme, containerPort: 7070 }]);
      const probes = [server.startupProbe, server.livenessProbe, server.readinessProbe].map(({ httpGet }) => httpGet);
      expect(probes.map(({ path }) => path)).toEqual([
        routes['health-get'].path,
        routes['health-get'].path,
        routes['readiness-get'].path,
      ]);
      for (const { port, scheme: used } of probes) expect([port, used]).toEqual([scheme, scheme.toUpperCase()]);
      expect(find('Service')?.spec.ports).toMatchObject([{ name: scheme, targetPort: scheme }]);
      expect(find('NetworkPolicy')?.spec.ingress[0]?.ports).toEqual([{ port: scheme, protocol: 'TCP' }]);
    });

    it('select the pods with every selector', () => {
      const { labels } = pod.metadata;
      const selectorOf = ({ spec }: Manifest) => {
        const selector = spec?.selector ?? spec?.podSelector ?? {};
        return 'matchLabels' in selector ? (selector.matchLabels as object) : selector;
      };
      const selecting = manifests.filter(({ kind }) =>
        ['Deployment', 'Service', 'PodDisruptionBudget', 'NetworkPolicy'].includes(kind),
      );
      expect(selecting.length).toBeGreaterThan(2);
      for (const manifest of selecting) {
        expect(Object.keys(selectorOf(manifest)).length, manifest.kind).toBeGreaterThan(0);
        expect(labels, manifest.kind).toMatchObject(selectorOf(manifest));
      }
    });

    it('leave the server enough time to stop', () => {
      const { drain_seconds } = readSettings(server.args.slice(1), secrets);
      const noticedSeconds = server.readinessProbe.periodSeconds * server.readinessProbe.failureThreshold;
      if (valueSet === 'external' || valueSet === 'everything') expect(drain_seconds).toBeGreaterThan(noticedSeconds);
      // With the embedded database no other replica could continue the work, so there is no drain.
      else expect(drain_seconds).toBe(0);
      expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThan(drain_seconds + longestStopSeconds);
    });
  });

  it('keep the embedded database on a volume, and never open it twice', () => {
    const { deployment, pod, find } = chart.render('embedded');
    expect(pod.spec.volumes).toContainEqual({
      name: 'data',
      persistentVolumeClaim: { claimName: find('PersistentVolumeClaim')?.metadata.name },
    });
    expect(deployment.spec.strategy).toEqual({ type: 'Recreate' });
    expect(find('PodDisruptionBudget')).toBeUndefined();
  });

  it('need no time for a drain of the embedded database', () => {
    const { pod } = chart.render('embedded', ['drainSeconds=60', 'terminationGracePeriodSeconds=45']);
    expect(pod.spec.terminationGracePeriodSeconds).toBe(45);
  });

  it.each(['external', 'numeric'] as const)('copy the key file of the %s values to memory only', (valueSet) => {
    const { pod, server } = chart.render(valueSet);
    const [copy] = pod.spec.initContainers ?? [];
    expect(copy?.volumeMounts.map(({ name, readOnly = false }) => [name, readOnly])).toEqual([
      ['key-file', false],
      ['keys', true],
    ]);
    expect(pod.spec.volumes).toContainEqual({ name: 'key-file', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } });
    const file = server.env.find(({ name }) => name === 'SLIPWAY_KEY_FILE')?.value;
    expect(copy?.command?.at(-1)).toMatch(new RegExp(` ${file}$`));
    expect(server.volumeMounts).toContainEqual({ name: 'key-file', mountPath: '/run/slipway-keys', readOnly: true });
  });

  it('keep names that look like numbers as text, and large numbers in full', () => {
    const { find, pod, server, text } = chart.render('numeric');
    expect(pod.metadata.labels['app.kubernetes.io/instance']).toBe('7');
    expect(server.image).toBe('22:30');
    expect(server.env.find(({ name }) => name === 'SLIPWAY_ADMIN_TOKEN')?.valueFrom).toEqual({
      secretKeyRef: { name: '123', key: '0x1f' },
    });
    expect(pod.spec.volumes.find(({ name }) => name === 'keys')?.secret).toMatchObject({
      secretName: '1e3',
      items: [{ key: '7', path: 'keys.json' }],
    });
    expect(server.args).toContain('--trusted-proxies=fe80::');
    expect(find('PersistentVolumeClaim')?.spec).toMatchObject({
      storageClassName: '9',
      resources: { requests: { storage: '20' } },
    });
    expect(find('ServiceMonitor')?.spec.endpoints).toMatchObject([
      { authorization: { credentials: { name: '0o17', key: '1.5' } } },
    ]);
    // Kubernetes refuses 1.00065e+09, which means the same in YAML.
    for (const name of ['runAsUser', 'fsGroup']) expect(text).toContain(` ${name}: 1000650000\n`);
    // `--set` passes 1e3 as text, but would turn an integer such as 8 into a number.
    const settings = ['database.existingSecret=1e3', 'tls.existingSecret=2e3', 'serviceMonitor.ca.existingSecret=3e3'];
    const { pod: other, server: otherServer, find: findOther } = chart.render('numeric', settings);
    expect(otherServer.env.find(({ name }) => name === 'SLIPWAY_DATABASE_URL')?.valueFrom?.secretKeyRef.name).toBe(
      '1e3',
    );
    expect(other.spec.volumes.find(({ name }) => name === 'tls')?.secret?.secretName).toBe('2e3');
    expect(findOther('ServiceMonitor')?.spec.endpoints).toMatchObject([
      { tlsConfig: { ca: { secret: { name: '3e3' } } } },
    ]);
    const { pod: claiming } = chart.render('numeric', ['persistence.existingClaim=1e3']);
    expect(claiming.spec.volumes).toContainEqual({ name: 'data', persistentVolumeClaim: { claimName: '1e3' } });
  });

  it('replace replicas on an external database one by one', () => {
    const { deployment, find } = chart.render('external');
    expect(deployment.spec).toMatchObject({
      replicas: 3,
      strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
    });
    expect(find('PersistentVolumeClaim')).toBeUndefined();
    expect(find('PodDisruptionBudget')?.spec).toMatchObject({ maxUnavailable: 1 });
  });

  it('pass a settings file that the server accepts', () => {
    const text = chart.render('everything').find('ConfigMap')?.data?.['slipway.yaml'] ?? '';
    expect(parseServerFile(text, 'slipway.yaml')).toMatchObject({ brake_policy: { fraction: 0.1 } });
  });

  it('scrape each pod with a token, under the job name of the alerts', () => {
    const { find, server } = chart.render('everything');
    expect(find('ServiceMonitor')?.spec.endpoints).toMatchObject([
      {
        path: routes['metrics-get'].path,
        port: server.ports[0]?.name,
        scheme: 'https',
        authorization: { credentials: { name: 'slipway-prometheus', key: 'token' } },
        relabelings: [{ targetLabel: 'job', replacement: 'slipway' }],
      },
    ]);
    expect(find('ServiceMonitor')?.spec.selector).toEqual({ matchLabels: find('Service')?.spec.selector });
    expect(chart.render('external').find('ServiceMonitor')).toBeUndefined();
  });

  describe('refuse', () => {
    it.each([
      ['embedded', 'replicas=2', '2 replicas need an external PostgreSQL'],
      ['external', 'database.existingSecret=', '3 replicas need an external PostgreSQL'],
      ['external', 'keys.existingSecret=', 'Set keys.existingSecret'],
      ['external', 'tls.existingSecret=', 'Set tls.existingSecret, or trustedProxies'],
      ['external', 'adminToken.existingSecret=', 'Set adminToken.existingSecret'],
      ['external', 'image.repository=', 'There is no published image yet'],
      ['external', 'publicUrl=', 'Set publicUrl'],
      ['external', 'serviceMonitor.enabled=true', 'Set serviceMonitor.token.existingSecret'],
      ['external', 'drainSeconds=60', 'Set terminationGracePeriodSeconds to at least 105'],
      // By the schema of the values:
      ['external', 'database.url=postgres://user:secret@db/slipway', "additional properties 'url' not allowed"],
      ['external', 'extraArgs={--database-url=postgres://user:secret@db/slipway}', "'not' failed"],
      ['external', 'publicUrl=http://slipway.example', 'does not match pattern'],
      ['external', 'replicas=0', 'minimum'],
      ['external', 'runAsUser=0', 'minimum'],
      ['external', 'replica=2', "additional properties 'replica' not allowed"],
    ] as const)('%s values with %s', (valueSet, setting, message) => {
      const { status, stderr } = chart.template(valueSet, [setting]);
      expect(stderr).toContain(message);
      expect(status).not.toBe(0);
    });
  });

  withOutsider('kubernetes-schemas', ({ python, env }) => {
    const validate = (manifests: string, version: string) =>
      spawnSync(python, ['-m', 'kubernetes_validate', '--strict', '--kubernetes-version', version, '-'], {
        input: manifests,
        encoding: 'utf8',
        env: { ...process.env, ...env },
      });

    // One call for all manifests, because reading the schemas takes a second.
    it.each(share(kubernetesVersions.slice(-1), [...kubernetesVersions]))('fit all manifests, in %s', (version) => {
      const renderedCharts = valueSets.map((valueSet) => chart.render(valueSet));
      const { status, stdout, stderr } = validate(renderedCharts.map(({ text }) => text).join('\n---\n'), version);
      expect(stderr).toBe('');
      expect(stdout).not.toMatch(/^(ERROR|FATAL)/m);
      expect(status).toBe(0);
      // Kubernetes itself has no ServiceMonitor. A test above checks its fields.
      const knownManifests = renderedCharts
        .flatMap(({ manifests }) => manifests)
        .filter(({ kind }) => kind !== 'ServiceMonitor');
      expect(stdout.match(/^INFO .* passed /gm)).toHaveLength(knownManifests.length);
    });

    it('detect an unknown field and a wrong type', () => {
      const invalidManifests = [{ readynessProbe: {} }, { args: 'serve' }].map((invalidFields) => {
        const { deployment, server } = chart.render('external');
        Object.assign(server, invalidFields);
        return stringify(deployment);
      });
      const { status, stdout } = validate(invalidManifests.join('---\n'), kubernetesVersions[1]);
      expect(stdout.match(/^ERROR/gm)).toHaveLength(invalidManifests.length);
      expect(status).not.toBe(0);
    });
  });
});
