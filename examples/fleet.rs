//! Generates a repo of N apps for M clusters, for measurements.
//!
//! ```text
//! cargo run --release --example fleet -- 300 100 /tmp/fleet            # all on every cluster
//! cargo run --release --example fleet -- 10000 1000 /tmp/fleet divided  # replicas by free resources
//! ```
//!
//! Every app has a Deployment, a Service and a `ConfigMap` (with `divided` only the Deployment), and each
//! region has its own image registry.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

const REGIONS: [&str; 5] = ["ap-south", "ap-east", "eu-west", "us-east", "us-west"];

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [apps, clusters, dir, mode @ ..] = args.as_slice() else {
        return Err(io::Error::other("usage: fleet APPS CLUSTERS DIR [divided]"));
    };
    let number = |text: &String| text.parse::<usize>().map_err(io::Error::other);
    let divided = mode.first().is_some_and(|m| m == "divided");
    let dir = Path::new(dir);
    fs::create_dir_all(dir.join("clusters"))?;
    fs::create_dir_all(dir.join("policies"))?;
    for index in 0..number(clusters)? {
        fs::write(dir.join(format!("clusters/c{index:04}.yaml")), cluster(index))?;
    }
    fs::write(dir.join("policies/placement.yaml"), placement(divided))?;
    fs::write(dir.join("policies/registries.yaml"), registries())?;
    for index in 0..number(apps)? {
        let folder = dir.join(format!("apps/app-{index:05}"));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("deployment.yaml"), deployment(index))?;
        if !divided {
            fs::write(folder.join("service.yaml"), service(index))?;
            fs::write(folder.join("configmap.yaml"), config(index))?;
        }
    }
    Ok(())
}

fn cluster(index: usize) -> String {
    let region = REGIONS[index % REGIONS.len()];
    let mut text = format!(
        "apiVersion: cluster.karmada.io/v1alpha1
kind: Cluster
metadata:
  name: c{index:04}
  labels:
    tier: {}
spec:
  provider: cloud-{}
  region: {region}
  zones:
  - {region}-{}
status:
  resourceSummary:
    allocatable:
      cpu: \"{}\"
      memory: {}Gi
      pods: \"{}\"
    allocated:
      cpu: \"{}\"
      memory: {}Gi
      pods: \"{}\"
  apiEnablements:
",
        if index.is_multiple_of(3) { "gold" } else { "silver" },
        index % 3,
        index % 2,
        400 + index * 7 % 300,
        1600 + index * 13 % 900,
        3000 + index * 31 % 2000,
        40 + index * 11 % 90,
        100 + index * 17 % 400,
        200 + index * 19 % 700,
    );
    for (version, kinds) in [("v1", &["Service", "ConfigMap"][..]), ("apps/v1", &["Deployment"])] {
        let _ = writeln!(text, "  - groupVersion: {version}\n    resources:");
        for kind in kinds {
            let _ = writeln!(text, "    - kind: {kind}");
        }
    }
    text
}

fn placement(divided: bool) -> String {
    let scheduling = if divided {
        "
  placement:
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
      weightPreference:
        dynamicWeight: AvailableReplicas
"
    } else {
        "\n"
    };
    let mut selectors = String::new();
    for (version, kind) in [("apps/v1", "Deployment"), ("v1", "Service"), ("v1", "ConfigMap")] {
        let _ = write!(selectors, "\n  - apiVersion: {version}\n    kind: {kind}");
    }
    format!(
        "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterPropagationPolicy
metadata:
  name: everything
spec:
  resourceSelectors:{selectors}{scheduling}"
    )
}

fn registries() -> String {
    let mut text = "apiVersion: policy.karmada.io/v1alpha1
kind: ClusterOverridePolicy
metadata:
  name: registries
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
  overrideRules:
"
    .to_owned();
    for region in REGIONS {
        let _ = write!(
            text,
            "  - targetCluster:
      fieldSelector:
        matchExpressions:
        - key: region
          operator: In
          values: [{region}]
    overriders:
      imageOverrider:
      - component: Registry
        operator: replace
        value: {region}.registry.example.com
"
        );
    }
    text
}

fn deployment(index: usize) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-{index:05}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: app-{index:05}
    app.kubernetes.io/part-of: shop
  annotations:
    example.com/owner: team-{team}@example.com
spec:
  replicas: {replicas}
  revisionHistoryLimit: 5
  selector:
    matchLabels:
      app.kubernetes.io/name: app-{index:05}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app.kubernetes.io/name: app-{index:05}
        app.kubernetes.io/part-of: shop
    spec:
      serviceAccountName: default
      containers:
      - name: app
        image: registry.example.com/shop/app-{index:05}:v1.{index}.0
        args:
        - --listen=:8080
        - --log-level=info
        ports:
        - name: http
          containerPort: 8080
          protocol: TCP
        envFrom:
        - configMapRef:
            name: app-{index:05}
        resources:
          requests:
            cpu: {cpu}m
            memory: {memory}Mi
          limits:
            memory: {memory}Mi
        readinessProbe:
          httpGet:
            path: /healthz
            port: http
          periodSeconds: 5
        livenessProbe:
          httpGet:
            path: /livez
            port: http
          initialDelaySeconds: 10
",
        team = index % 20,
        replicas = 2 + index % 60,
        cpu = 50 + index % 10 * 50,
        memory = 64 + index % 8 * 64,
    )
}

fn service(index: usize) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata:
  name: app-{index:05}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: app-{index:05}
spec:
  selector:
    app.kubernetes.io/name: app-{index:05}
  ports:
  - name: http
    port: 80
    targetPort: http
    protocol: TCP
",
        team = index % 20
    )
}

fn config(index: usize) -> String {
    let mut lines = String::new();
    for line in 0..24 {
        let _ = writeln!(lines, "    setting-{line:02} = \"value {} of app {index}\"", line * 7);
    }
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata:
  name: app-{index:05}
  namespace: team-{team}
data:
  LOG_LEVEL: info
  FEATURE_FLAGS: \"on\"
  settings.ini: |
{lines}",
        team = index % 20
    )
}
