"""Find or start what Spark needs: versions, Java, jars and executors."""
